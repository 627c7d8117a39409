#pragma once
// The files that a verb reads and writes.

#include <filesystem>
#include <string>
#include <vector>

namespace transformer::cli {

// A file, or a folder that is read, as the user named it. "": not given; "-": standard input, or output.
struct NamedFile {
  std::string flag, path;
};
inline std::string or_standard(const std::string& path) { return path.empty() ? "-" : path; }

// Error of usage when one of those that are written is one that is read, or of a folder that is, or is written twice; also through links.
void keep_apart(const std::vector<NamedFile>& read, const std::vector<NamedFile>& written);

// Writes a file that this program makes up, beside the model. Error when another one is there under that name: it is the user's.
void write_made(const std::filesystem::path& path, const std::string& text);

}  // namespace transformer::cli
