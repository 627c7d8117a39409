#pragma once
// Records of delimited text, as spreadsheets, pandas and Python's csv write them: CSV, TSV and their like.
//
//   LineReader file("train.csv");                                       // io/lines.h
//   DelimitedReader rows([&](std::string& line) { return file.next(line); }, "train.csv");
//   for (std::vector<std::string> cells; rows.next(cells);) use(cells, rows.line());
//
// A cell in quotes may hold delimiters, line ends, and quotes ("" for one). Where commas or the like separate the cells, every cell that
// begins with a quote is in quotes. Where tabs do, texts often begin with a quote of their own. There a cell is in quotes when the
// closing quote stands right before a tab or the end of the line, and one of these holds: a writer had to put the quotes, as there is a
// tab, a line end or a doubled quote between them; or all cells of the first record are in quotes, numbers aside. Lines that are complete
// records by themselves are never put together.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/io/config.h"

namespace transformer {

// Whether the first record has the names of the columns.
enum class Header : std::uint8_t { automatic, yes, no };
inline EnumNames<Header> names(Header) { return {{Header::automatic, "auto"}, {Header::yes, "yes"}, {Header::no, "no"}}; }

struct DelimitedOptions {
  // One character, or "tab". "auto": tab ; , or |, the first of them that cuts the first records into equally many cells, else the most
  // frequent one of the first record.
  std::string delimiter = "auto";
  // Cells are numbers and names, not texts: spaces around them and empty lines are dropped, and what begins with a quote is in quotes,
  // between tabs too.
  bool numbers = false;
};

class DelimitedReader {
 public:
  using Lines = std::function<bool(std::string& line)>;  // the next line, or false; may give more later
  // `name` stands in errors.
  DelimitedReader(Lines lines, std::string name, const DelimitedOptions& options = {});

  // The next record, or false. An empty line of texts is a record of one empty cell. Error for a cell in quotes that
  // does not end, and for UTF-16 that nobody has decoded.
  bool next(std::vector<std::string>& cells);

  std::int64_t line() const { return began_; }  // where the record read last begins, from 1
  char delimiter() const { return delimiter_; }
  std::string delimiter_name() const { return delimiter_ == '\t' ? "tab" : std::string(1, delimiter_); }

 private:
  bool more(std::string& line);
  bool grow();  // the record goes on in the next line
  // All lines of the record behind its first `length` bytes, which are those up to this line.
  void give_back(std::size_t length, std::int64_t line);
  void guess();
  void cut(std::vector<std::string>& cells);
  void cut_first(std::vector<std::string>& cells);
  bool quoted_cell(std::string& cell);
  bool are_records(std::size_t length) const;

  Lines lines_;
  std::string name_;
  bool numbers_ = false, sample_ = false;
  bool all_quoted_ = false;  // between tabs: all cells but numbers are in quotes
  char delimiter_ = '\0';
  std::deque<std::string> waiting_;  // lines that were read too early
  std::string record_;               // its lines so far
  std::size_t at_ = 0;               // in the record
  std::size_t columns_ = 0;          // of the record before
  std::int64_t read_ = 0, began_ = 0;
};

// The delimiter of a file by its name, unless one is given: "auto" for .csv, else "tab". The ending .gz does not count.
std::string delimiter_of(std::string_view path, const std::string& given = "auto");

// A cell as it stands in a CSV file: in quotes where it must be.
std::string csv_cell(const std::string& text);

}  // namespace transformer
