#pragma once
// A file that only grows, by whole records: each reaches the system before append() returns, and one that cannot be written
// as a whole is taken back.

#include <filesystem>
#include <string_view>

namespace transformer {

class AppendFile {
 public:
  AppendFile() = default;                                  // no file
  explicit AppendFile(const std::filesystem::path& path);  // goes on at the end of what is there
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace transformer
