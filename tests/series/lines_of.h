#pragma once
// A text as the lines that a reader of files would give.

#include <functional>
#include <sstream>
#include <string>

#include "transformer/series/table.h"

namespace transformer::test {

inline SeriesTable table_of(const std::string& text, const TableOptions& options = {}) {
  std::istringstream in(text);
  const std::function<bool(std::string&)> next = [&](std::string& line) { return static_cast<bool>(std::getline(in, line)); };
  return read_table(next, "x.csv", options);
}

}  // namespace transformer::test
