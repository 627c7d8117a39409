#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail(path_.string(), "cannot open for writing: {}", std::generic_category().message(errno));
}

AppendFile::~AppendFile() {
  if (file_ >= 0) close(file_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

void AppendFile::append(std::string_view record) {
  const off_t before = lseek(file_, 0, SEEK_END);
  while (!record.empty()) {
    const ssize_t written = write(file_, record.data(), record.size());
    if (written >= 0) {
      record.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const int error = errno;
      [[maybe_unused]] const bool taken_back = before >= 0 && ftruncate(file_, before) == 0;
      fail(path_.string(), "cannot write: {}", std::generic_category().message(error));
    }
  }
}

}  // namespace transformer
