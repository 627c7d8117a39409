#include "io/shared/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {
namespace {

[[noreturn]] void fail_with_errno(const std::string& path, const char* doing) {
  fail(path, "cannot {}: {}", doing, std::generic_category().message(errno));
}

}  // namespace

Mapping::Mapping(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail_with_errno(path, "open");
  struct stat info {};
  const bool known = fstat(file, &info) == 0;
  const bool regular = known && S_ISREG(info.st_mode);
  void* at = nullptr;
  if (regular && info.st_size > 0)
    at = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
  const int error = errno;
  close(file);
  errno = error;
  if (known && !regular) fail(path, "is not a regular file");
  if (!known || at == MAP_FAILED) fail_with_errno(path, "map");
  data = static_cast<std::byte*>(at);
  size = static_cast<std::size_t>(info.st_size);
}

Mapping::~Mapping() {
  if (data != nullptr) munmap(data, size);
}

}  // namespace transformer
