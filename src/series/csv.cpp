#include "series/csv.h"

#include <algorithm>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {
namespace {

void trim(std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r");
  text.erase(end == std::string::npos ? 0 : end + 1);
  text.erase(0, text.find_first_not_of(" \t\r"));
}

}  // namespace

void CsvRecords::set_delimiter(const std::string& delimiter) {
  if (delimiter == "auto") delimiter_ = '\0';
  else if (delimiter == "tab" || delimiter == "\\t") delimiter_ = '\t';
  else if (delimiter.size() == 1 && delimiter != "\"" && delimiter != "\n") delimiter_ = delimiter.front();
  else fail(name_, "delimiter is '{}': expected auto, tab, or one character such as , or ;", delimiter);
}

bool CsvRecords::more(std::string& line) {
  if (!lines_(line)) return false;
  ++read_;
  if (read_ == 1 && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF")))
    fail(name_, "the file is UTF-16: expected UTF-8; save it as UTF-8 (in spreadsheets: CSV UTF-8)");
  return true;
}

void CsvRecords::guess(const std::string& line) {
  constexpr std::string_view candidates = ",;\t";
  std::int64_t counts[3] = {};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') quoted = !quoted;
    else if (const std::size_t i = candidates.find(c); !quoted && i != std::string_view::npos) ++counts[i];
  }
  delimiter_ = candidates[static_cast<std::size_t>(std::max_element(counts, counts + 3) - counts)];
}

void CsvRecords::not_closed() const { fail(name_, "line {}: a quoted cell that begins here does not end", began_); }

bool CsvRecords::next(std::vector<std::string>& cells) {
  cells.clear();
  std::string line;
  do
    if (!more(line)) return false;
  while (line.find_first_not_of(" \t\r") == std::string::npos);
  began_ = read_;
  if (delimiter_ == '\0') guess(line);
  std::string cell;
  bool quoted = false, was_quoted = false;
  const auto finish = [&] {
    if (!was_quoted) trim(cell);
    cells.push_back(std::exchange(cell, {}));
    was_quoted = false;
  };
  for (;;) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quoted) {
        if (c != '"') cell += c;
        else if (i + 1 < line.size() && line[i + 1] == '"') cell += line[++i];
        else quoted = false;
      } else if (c == delimiter_) {
        finish();
      } else if (c == '"' && !was_quoted && cell.find_first_not_of(' ') == std::string::npos) {
        cell.clear();
        quoted = was_quoted = true;
      } else if (!was_quoted || (c != ' ' && c != '\r')) {
        cell += c;
      }
    }
    if (!quoted) break;
    cell += '\n';
    if (cell.size() > (std::size_t{1} << 20) || !more(line)) not_closed();
  }
  finish();
  return true;
}

std::string csv_cell(const std::string& text) {
  const bool plain = text.find_first_of(",;\"\t\r\n") == std::string::npos && (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace transformer
