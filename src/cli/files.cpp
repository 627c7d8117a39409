#include "cli/files.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "io/shared/atomic_file.h"
#include "io/shared/read_file.h"
#include "transformer/core/error.h"

namespace transformer::cli {
namespace {

namespace fs = std::filesystem;

// Also when neither is there yet. Devices and pipes are not replaced: they may be both.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return fs::is_regular_file(a, error);
  return !fs::exists(a, error) && !fs::exists(b, error) &&
      fs::weakly_canonical(fs::absolute(a), error) == fs::weakly_canonical(fs::absolute(b), error);
}

// The same with what "-" stands for.
NamedFile with_standard(const NamedFile& file, const char* name, const char* path) {
  return file.path == "-" ? NamedFile{name, path} : file;
}

// A file that is there, in this folder or in one of its own. One that is empty holds nothing: such a one the shell has just made for what
// is written to standard output.
bool is_inside(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::is_empty(file, error) || !fs::is_directory(folder, error)) return false;
  for (fs::path at = fs::canonical(file, error); at.has_relative_path(); at = at.parent_path())
    if (fs::equivalent(at.parent_path(), folder, error)) return true;
  return false;
}

void refuse_same(const NamedFile& a, const NamedFile& b) {
  if (a.path.empty() || b.path.empty()) return;
  if (is_inside(b.path, a.path))
    throw CLI::ValidationError(fmt::format("{} is a file of {}, {}: give what is written a name of its own", b.flag, a.flag, b.path));
  if (!same_file(a.path, b.path)) return;
  throw CLI::ValidationError(
      fmt::format("{} and {} are the same file, {}: give what is written a name of its own", a.flag, b.flag, b.path));
}

}  // namespace

void keep_apart(const std::vector<NamedFile>& read, const std::vector<NamedFile>& written) {
  std::vector<NamedFile> taken;
  for (const NamedFile& file : read) taken.push_back(with_standard(file, "standard input", "/dev/stdin"));
  for (const NamedFile& file : written) {
    const NamedFile out = with_standard(file, "standard output", "/dev/stdout");
    for (const NamedFile& other : taken) refuse_same(other, out);
    taken.push_back(out);
  }
}

void write_made(const fs::path& path, const std::string& text) {
  if (fs::exists(path)) {
    if (read_file(path) == text) return;
    fail(path.string(), "is there already, with something else in it: choose another --save-dir, so that it is not lost");
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace transformer::cli
