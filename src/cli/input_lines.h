#pragma once
// The texts a verb works on: those of a flag, the lines of a file, or those of standard input as they come.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "io/shared/chunks.h"
#include "io/shared/line_stream.h"

namespace transformer::cli {

class InputLines {
 public:
  InputLines(const std::vector<std::string>& texts, const std::string& path) {
    if (!texts.empty() && !path.empty()) throw CLI::ValidationError("--text and --input exclude each other");
    if (!texts.empty()) {
      next_ = lines_of(texts);
    } else if (!path.empty() && path != "-") {
      next_ = read_lines({path});
    } else {
      next_ = until_end([this](std::string& line) { return standard_input_.next(line); });
      ready_ = [this] { return standard_input_.ready(20); };  // milliseconds: a busy writer is waited for
    }
  }
  InputLines(const InputLines&) = delete;
  InputLines& operator=(const InputLines&) = delete;

  // The next ones, up to `most` and no more than are there; false after the last.
  bool chunk(std::int64_t most, std::vector<std::string>& lines) { return read_chunk(next_, ready_, most, lines); }

  // The same line by line, for what makes portions itself.
  const LineSource& next() const { return next_; }
  const std::function<bool()>& ready() const { return ready_; }
  std::int64_t cut() const { return standard_input_.cut(); }  // lines of which only the beginning was kept

 private:
  LineStream standard_input_;
  LineSource next_;
  std::function<bool()> ready_;
};

}  // namespace transformer::cli
