#include "io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

// Where the system shows an open file: the way to a file without a name.
std::string way_to(int file) { return fmt::format("/proc/self/fd/{}", file); }

// Calls make with names in the folder of the file until it succeeds, or fails because of something else than a name that is taken.
std::filesystem::path with_temporary_name(const std::filesystem::path& path, auto&& make) {
  static std::atomic<unsigned> count{0};
  while (true) {
    std::filesystem::path name = path;
    name += fmt::format(".tmp-{}-{}", getpid(), count++);
    if (make(name)) return name;
    if (errno != EEXIST) return {};
  }
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path) {
#ifdef O_TMPFILE
  file_ = open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file_ >= 0 && access(way_to(file_).c_str(), F_OK) == 0) return;
  if (file_ >= 0) close(file_);
#endif
  // A file system or a system that does not have such files.
  temporary_ = with_temporary_name(path_, [&](const std::filesystem::path& name) {
    return (file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0;
  });
  if (file_ < 0) fail_with("create a file");
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
  if (temporary_.empty()) {  // it cannot take the place of a file at once, but a name beside it
    temporary_ = with_temporary_name(path_, [&](const std::filesystem::path& name) {
      return linkat(AT_FDCWD, way_to(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
    if (temporary_.empty()) fail_with("give the new file a name");
  }
  if (const int file = std::exchange(file_, -1); close(file) != 0) fail_with("close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_with("rename the new file to this name");
  temporary_.clear();
  sync_folder(folder_of(path_));
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
