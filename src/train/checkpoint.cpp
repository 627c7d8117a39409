#include "train/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "io/shared/atomic_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-", temporary = ".incomplete-";

[[noreturn]] void fail_with(const fs::path& path, const char* doing, int error) {
  fail(path.string(), "cannot {}: {}", doing, std::generic_category().message(error));
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char *begin = name.data() + step_prefix.size(), *end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && begin != end ? std::optional(step) : std::nullopt;
}

}  // namespace

void check_folder(const fs::path& path) {
  if (std::error_code ignored; fs::exists(path, ignored) && !fs::is_directory(path, ignored))
    fail(path.string(), "is not a folder: choose another name, or move it away");
}

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  if (fs::is_symlink(path, error) && !fs::exists(path, error))
    fail(path.string(), "is a link to {}, which is not there", fs::read_symlink(path).string());
  check_folder(path);
  fs::create_directories(path, error);
  if (error) fail(path.string(), "cannot make the folder: {}", error.message());
  return path;
}

std::vector<std::int64_t> Checkpoints::steps() const {
  std::vector<std::int64_t> out;
  if (!fs::is_directory(folder_)) return out;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (const auto step = step_of(entry.path().filename().string()); step && fs::exists(entry.path() / "trainer.json"))
      out.push_back(*step);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<std::int64_t> Checkpoints::latest() const {
  const auto all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

fs::path Checkpoints::at(std::int64_t step) const { return folder_ / fmt::format("{}{:08}", step_prefix, step); }

void Checkpoints::write(std::int64_t step, const std::function<void(const fs::path&)>& fill) const {
  const fs::path draft = folder_ / fmt::format("{}{}", temporary, getpid()), final = at(step);
  std::error_code error;
  fs::remove_all(draft, error);
  fs::create_directories(draft, error);
  if (error) fail_with(draft, "make the folder", error.value());
  try {
    fill(draft);  // its files are synced as they are written
    sync_folder(draft);
    fs::remove_all(final, error);  // there only when a run was resumed from an older checkpoint
    fs::rename(draft, final, error);
    if (error) fail_with(final, "give the new checkpoint its name", error.value());
    sync_folder(folder_);
  } catch (...) {
    fs::remove_all(draft, error);
    throw;
  }
}

void Checkpoints::keep_last(std::int64_t count) const {
  const auto all = steps();
  std::error_code ignored;
  for (std::size_t i = 0; i + static_cast<std::size_t>(count) < all.size(); ++i)  // renamed first: half removed it must not count
    fs::rename(at(all[i]), folder_ / fmt::format("{}{}", temporary, all[i]), ignored);
  if (!fs::is_directory(folder_)) return;
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with(temporary)) left.push_back(entry.path());
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

FolderLock::FolderLock(const fs::path& folder) {
  const fs::path path = folder / ".lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail_with(path, "create the file", errno);
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(file_);
    fail(folder.string(), "another process is training in this folder: wait for it, or choose another folder");
  }
}

FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);  // and the lock goes with it
}

}  // namespace transformer
