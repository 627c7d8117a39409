#pragma once
// Records of a CSV file: cells may be quoted, and quoted ones may hold delimiters, quotes ("" for one) and line ends.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace transformer {

class CsvRecords {
 public:
  CsvRecords(const std::function<bool(std::string& line)>& lines, std::string name) : lines_(lines), name_(std::move(name)) {}

  // "auto" (decided by the first record), "tab", or one character. Error otherwise.
  void set_delimiter(const std::string& delimiter);
  // The next record that is not an empty line, or false. Cells come without quotes and without spaces around them.
  bool next(std::vector<std::string>& cells);

  std::int64_t line() const { return began_; }  // where the record read last begins, from 1
  char delimiter() const { return delimiter_; }

 private:
  bool more(std::string& line);
  void guess(const std::string& line);
  [[noreturn]] void not_closed() const;

  const std::function<bool(std::string& line)>& lines_;
  std::string name_;
  char delimiter_ = '\0';
  std::int64_t read_ = 0, began_ = 0;
};

// A cell as it stands in a file: quoted where it must be.
std::string csv_cell(const std::string& text);

}  // namespace transformer
