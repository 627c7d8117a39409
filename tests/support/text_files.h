#pragma once
// Files for the tests of text: a folder that goes away with the test.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "support/golden.h"
#include "support/paths.h"
#include "transformer/core/error.h"
#include "transformer/io/lines.h"

namespace transformer::test {

class TextFolder {
 public:
  TextFolder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::path(testing::TempDir()) / fmt::format("text-{}-{}", getpid(), count++);
    std::filesystem::create_directories(path_);
  }
  ~TextFolder() { std::filesystem::remove_all(path_); }
  TextFolder(const TextFolder&) = delete;
  TextFolder& operator=(const TextFolder&) = delete;

  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return *this / name;
  }
  std::string write_gzip(std::string_view name, std::string_view bytes) const {
    gzFile file = gzopen((*this / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

// Cases in a folder of their own: where TRANSFORMER_GOLDEN says, or, when it has none of this name, those of the project.
inline std::filesystem::path case_folder(const std::string& name) {
  const std::filesystem::path given = golden_root() / name;
  return std::filesystem::is_directory(given) ? given : source_folder() / "tests/golden" / name;
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The number behind these words of the Error that f() throws.
inline std::int64_t number_in_error(const std::function<void()>& f, std::string_view before) {
  try {
    f();
  } catch (const Error& e) {
    const std::string text = e.what();
    if (const std::size_t at = text.find(before); at != std::string::npos) return std::stoll(text.substr(at + before.size()));
    ADD_FAILURE() << text;
    return -1;
  }
  ADD_FAILURE() << "no error";
  return -1;
}

inline std::vector<std::string> all_lines(const LineSource& source) {
  std::vector<std::string> lines;
  for (std::string line; source(line);) lines.push_back(line);
  return lines;
}

inline LineSource lines_from(std::vector<std::string> lines) {
  return [lines = std::move(lines), at = std::size_t{0}](std::string& line) mutable {
    if (at == lines.size()) return false;
    line = lines[at++];
    return true;
  };
}

}  // namespace transformer::test
