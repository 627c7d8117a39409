#include "io/shared/gzip_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "transformer/core/error.h"

namespace transformer {
namespace {

std::string in_words(int error) { return std::generic_category().message(error); }

int open_for_reading(const std::string& path, const std::string& name) {
  const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(name, "cannot open: {}", in_words(errno));
  struct stat about {};
  if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
    close(file);
    fail(name, "cannot read: it is a folder");
  }
  return file;
}

}  // namespace

void GzipFile::Close::operator()(gzFile_s* file) const { gzclose_r(file); }

GzipFile::GzipFile(const std::string& path) : name_(path == "-" ? "standard input" : path) {
  const int file = open_for_reading(path, name_);
  file_.reset(gzdopen(file, "rb"));  // reads what is not gzip as it is
  if (file_ == nullptr) {
    close(file);
    fail(name_, "cannot open: out of memory");
  }
  gzbuffer(file_.get(), 1U << 16);
}

std::size_t GzipFile::read(void* to, std::size_t size, const std::string& position) {
  constexpr std::size_t most = std::size_t{1} << 30;
  errno = 0;
  const int bytes = gzread(file_.get(), to, static_cast<unsigned>(std::min(size, most)));
  const int read_error = errno;
  if (bytes > 0 || size == 0) return static_cast<std::size_t>(bytes);
  int status = Z_OK;
  std::string what = gzerror(file_.get(), &status);  // "<fd:3>: incorrect data check"
  what.erase(0, what.starts_with('<') ? what.find(": ") + 2 : 0);
  if (status == Z_ERRNO) fail(name_, "cannot read: {}", in_words(read_error));
  if (status == Z_BUF_ERROR) fail(name_, "the gzip data end too early, {}: the file is cut off", position);
  if (bytes < 0) fail(name_, "the gzip data are damaged, {}: {}", position, what);
  return 0;
}

}  // namespace transformer
