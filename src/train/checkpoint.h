#pragma once
// The folders of checkpoints: checkpoints/step-N, each of which appears as a whole or not at all.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace transformer {

// Makes a folder, and those that it lies in, where they are not there; gives its path back.
std::filesystem::path make_folder(const std::filesystem::path& path);
void check_folder(const std::filesystem::path& path);  // Error where there is something else

class Checkpoints {
 public:
  explicit Checkpoints(const std::filesystem::path& folder) : folder_(folder / "checkpoints") {}

  std::vector<std::int64_t> steps() const;  // of the complete ones, in order
  std::optional<std::int64_t> latest() const;
  std::filesystem::path at(std::int64_t step) const;

  // Calls fill with an empty temporary folder, syncs it and gives it its name. When anything fails the temporary folder
  // is removed and the earlier checkpoints are as they were.
  void write(std::int64_t step, const std::function<void(const std::filesystem::path&)>& fill) const;
  // Removes all but the last `count`, and what killed runs left half-written.
  void keep_last(std::int64_t count) const;

 private:
  std::filesystem::path folder_;
};

// While alive, no other process trains in this folder; an Error says so when one does.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace transformer
