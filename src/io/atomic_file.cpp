#include "io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
  static std::atomic<unsigned> count{0};
  do {
    temporary_ = path_;
    temporary_ += fmt::format(".tmp-{}-{}", getpid(), count++);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) {
    temporary_.clear();
    fail_with("create a file");
  }
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail_with(const char* doing) const {
  const int error = errno;
  fail(path_.string(), "cannot {}: {}", doing, std::generic_category().message(error));
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with("write");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail_with("sync");
  if (const int file = std::exchange(file_, -1); close(file) != 0) fail_with("close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_with("rename the new file to this name");
  temporary_.clear();
  sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void sync_folder(const std::filesystem::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;  // not every file system lets a folder be opened, or synced
  const bool failed = fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int error = errno;
  close(file);
  if (failed) fail(folder.string(), "cannot sync the folder: {}", std::generic_category().message(error));
}

}  // namespace transformer
