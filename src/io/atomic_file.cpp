#include "io/shared/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "transformer/core/error.h"

namespace transformer {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view temporary_mark = ".tmp-";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

// The open file of this process that a name stands for, -1 for other names: a file that standard output goes to is written to where
// it stands, not replaced.
int open_file_of(const fs::path& path) {
  const std::string name = fs::absolute(path).lexically_normal().string();
  if (name == "/dev/stdout") return STDOUT_FILENO;
  if (name == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int number = -1;
    const char* end = name.data() + name.size();
    if (name.starts_with(folder) && std::from_chars(name.data() + folder.size(), end, number).ptr == end) return number;
  }
  return -1;
}

// Where links lead to, which need not be there.
fs::path target_of(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && open_file_of(path) < 0 && fs::is_symlink(path, error); ++links)
    path = folder_of(path) / fs::read_symlink(path, error);
  return path;
}

// Where the system shows an open file: the way to a file without a name.
std::string way_to(int file) { return fmt::format("/proc/self/fd/{}", file); }

// Calls make with names in the folder of the file until it succeeds, or fails because of something else than a name that is taken.
fs::path with_temporary_name(const fs::path& path, auto&& make) {
  static std::atomic<unsigned> count{0};
  while (true) {
    fs::path name = path;
    name += fmt::format("{}{}-{}", temporary_mark, getpid(), count++);
    if (make(name)) return name;
    if (errno != EEXIST) return {};
  }
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path), target_(target_of(path)) {
  struct stat old = {};
  const int open_file = open_file_of(target_);
  const bool exists = open_file < 0 && stat(target_.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) fail(path_.string(), "is a folder: expected the name of a file");
  direct_ = open_file >= 0 || (exists && !S_ISREG(old.st_mode));
  if (direct_) {
    file_ = open_file >= 0 ? fcntl(open_file, F_DUPFD_CLOEXEC, 0) : open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail_with("open for writing");
    return;
  }
  if (exists && access(target_.c_str(), W_OK) != 0) fail_with("write");
  create();
  if (exists && fchmod(file_, old.st_mode & 07777U) != 0) fail_with("give the new file the old one's permissions");
}

void AtomicFile::create() {
#ifdef O_TMPFILE
  file_ = open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file_ >= 0 && access(way_to(file_).c_str(), F_OK) == 0) return;
  if (file_ >= 0) close(file_);
#endif
  // A file system or a system that does not have such files.
  temporary_ = with_temporary_name(
      target_, [&](const fs::path& name) { return (file_ = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) >= 0; });
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
  if (direct_) {
    if (const int file = std::exchange(file_, -1); close(file) != 0) fail_with("close");
    return;
  }
  if (fsync(file_) != 0) fail_with("sync");
  if (temporary_.empty()) {  // it cannot take the place of a file at once, but a name beside it
    temporary_ = with_temporary_name(target_, [&](const fs::path& name) {
      return linkat(AT_FDCWD, way_to(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    });
    if (temporary_.empty()) fail_with("give the new file a name");
  }
  if (const int file = std::exchange(file_, -1); close(file) != 0) fail_with("close");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_with("rename the new file to this name");
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void remove_temporary_files(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const auto mark = name.rfind(temporary_mark);  // then a process and a count
    if (mark == std::string::npos || !entry.is_regular_file(ignored)) continue;
    const std::string_view numbers = std::string_view(name).substr(mark + temporary_mark.size());
    const auto dash = numbers.find('-');
    const auto all_digits = [](std::string_view text) {
      return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (dash != std::string_view::npos && all_digits(numbers.substr(0, dash)) && all_digits(numbers.substr(dash + 1)))
      left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove(path, ignored);
}

void sync_folder(const fs::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;  // not every file system lets a folder be opened, or synced
  const bool failed = fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int error = errno;
  close(file);
  if (failed) fail(folder.string(), "cannot sync the folder: {}", std::generic_category().message(error));
}

}  // namespace transformer
