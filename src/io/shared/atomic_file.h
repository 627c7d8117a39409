#pragma once
// A file that appears as a whole or not at all: written without a name (where the file system cannot do that, under a temporary one in
// the same folder), synced, renamed over the old one, and the folder synced. Whatever fails on the way leaves the old file as it was,
// and a program that is ended on the way leaves no other. A link stays a link: what it leads to is replaced. What is no file that can be
// replaced (/dev/stdout, /dev/null, a pipe) is written to directly.

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace transformer {

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();  // without commit(): the temporary is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  void create();
  [[noreturn]] void fail_with(const char* doing) const;  // errno in words

  std::filesystem::path path_, target_, temporary_;  // as given; what it leads to; "" while it has no name
  bool direct_ = false;                              // cannot be replaced
  int file_ = -1;
};

// Removes the temporary files that programs which were killed left in this folder, where no other program is writing.
void remove_temporary_files(const std::filesystem::path& folder);

// A name that was given or taken in this folder is on the disk. Error when that fails.
void sync_folder(const std::filesystem::path& folder);

}  // namespace transformer
