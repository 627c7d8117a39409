#include "transformer/io/delimited.h"

#include <algorithm>
#include <utility>

#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::size_t longest_record = std::size_t{1} << 20;  // of several lines, in bytes

void trim(std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r");
  text.erase(end == std::string::npos ? 0 : end + 1);
  text.erase(0, text.find_first_not_of(" \t\r"));
}

bool is_number(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789.,+-eE") == std::string_view::npos; }

}  // namespace

DelimitedReader::DelimitedReader(Lines lines, std::string name, const DelimitedOptions& options)
    : lines_(std::move(lines)), name_(std::move(name)), numbers_(options.numbers) {
  const std::string& d = options.delimiter;
  if (d == "auto") delimiter_ = '\0';
  else if (d == "tab" || d == "\\t") delimiter_ = '\t';
  else if (d.size() == 1 && d != "\"" && d != "\n" && d != "\r") delimiter_ = d.front();
  else fail(name_, "delimiter is '{}': expected auto, tab, or one character such as , or ;", d);
}

bool DelimitedReader::more(std::string& line) {
  if (!waiting_.empty()) {
    line = std::move(waiting_.front());
    waiting_.pop_front();
  } else {
    if (!lines_(line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    const bool marked = read_ == 0 && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF"));
    if (marked || line.find('\0') != std::string::npos)
      fail(name_, "line {} has {}: the text looks like UTF-16; save it as UTF-8 (in spreadsheets: CSV UTF-8)", read_ + 1,
           marked ? "the mark of UTF-16" : "zero bytes");
  }
  ++read_;
  return true;
}

bool DelimitedReader::grow() {
  std::string line;
  if (record_.size() > longest_record || !more(line)) return false;
  record_ += '\n';
  record_ += line;
  return true;
}

void DelimitedReader::give_back(std::size_t length, std::int64_t line) {
  std::vector<std::string> later;
  for (std::size_t begin = length; begin < record_.size();) {
    const std::size_t end = std::min(record_.find('\n', begin + 1), record_.size());
    later.push_back(record_.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  waiting_.insert(waiting_.begin(), later.begin(), later.end());
  record_.resize(length);
  read_ = line;
}

// By the first lines, read as each of the candidates would have them.
void DelimitedReader::guess() {
  constexpr std::size_t most_lines = 50, most_bytes = std::size_t{1} << 16, most_records = 20;
  std::size_t bytes = 0;
  std::deque<std::string> first;
  for (std::string line; first.size() < most_lines && bytes < most_bytes && more(line);) {
    bytes += line.size();
    first.push_back(std::move(line));
  }
  waiting_ = std::move(first);
  read_ = 0;
  std::size_t most = 0;
  char frequent = ',', even = '\0';
  for (const char candidate : {'\t', ';', ',', '|'}) {
    auto next = waiting_.begin();
    const auto sample = [&](std::string& line) { return next != waiting_.end() && (line = *next++, true); };
    DelimitedReader reader(sample, name_, {.delimiter = std::string(1, candidate), .numbers = true});
    reader.sample_ = true;
    std::vector<std::string> cells;
    std::size_t records = 0, columns = 0;
    bool all = true;
    for (; records < most_records && reader.next(cells); ++records) {
      if (records == 0) columns = cells.size();
      all = all && cells.size() == columns;
    }
    if (even == '\0' && all && columns > 1 && records > 1) even = candidate;
    if (columns > most || (columns == most && candidate == ',')) most = columns, frequent = candidate;
  }
  delimiter_ = even != '\0' ? even : frequent;
}

bool DelimitedReader::next(std::vector<std::string>& cells) {
  cells.clear();
  if (delimiter_ == '\0') guess();
  do
    if (!more(record_)) return false;
  while (numbers_ && record_.find_first_not_of(" \t\r") == std::string::npos);
  const bool first = began_ == 0;
  began_ = read_;
  if (first && delimiter_ == '\t' && !numbers_) cut_first(cells);
  else cut(cells);
  columns_ = cells.size();
  return !cells.empty();
}

// Cuts the record up; it grows where a cell in quotes goes on. Of a sample that ends in the middle of a record nothing is left.
void DelimitedReader::cut(std::vector<std::string>& cells) {
  at_ = 0;
  for (bool last = false; !last; ++at_) {
    std::string cell;
    if (!quoted_cell(cell)) {
      if (at_ > record_.size()) return cells.clear();
      const std::size_t end = std::min(record_.find(delimiter_, at_), record_.size());
      cell = record_.substr(at_, end - at_);
      if (numbers_) trim(cell);
      at_ = end;
    }
    cells.push_back(std::move(cell));
    last = at_ >= record_.size();
  }
}

// Are all of its cells in quotes, but for numbers? Then so are those of the records that follow.
void DelimitedReader::cut_first(std::vector<std::string>& cells) {
  const std::size_t length = record_.size();
  all_quoted_ = true;
  std::string cell;
  bool quoted = false, more_cells = true;
  for (at_ = 0; all_quoted_ && more_cells; ++at_) {
    if (quoted_cell(cell)) {
      quoted = true;
    } else {
      const std::size_t end = std::min(record_.find(delimiter_, at_), record_.size());
      all_quoted_ = is_number(std::string_view(record_).substr(at_, end - at_));
      at_ = end;
    }
    more_cells = at_ < record_.size();
  }
  all_quoted_ = all_quoted_ && quoted;
  give_back(length, began_);
  cut(cells);
}

// The cell at the place in the record, if it is in quotes.
bool DelimitedReader::quoted_cell(std::string& cell) {
  const bool texts = delimiter_ == '\t' && !numbers_;
  const std::size_t open = numbers_ ? std::min(record_.find_first_not_of(' ', at_), record_.size()) : at_;
  if (open >= record_.size() || record_[open] != '"') return false;
  const std::size_t length = record_.size();
  const std::int64_t line = read_;
  const auto is_none = [&] { return give_back(length, line), false; };
  bool needed = all_quoted_;
  cell.clear();
  std::size_t close = open + 1;
  for (;; ++close) {
    const std::size_t quote = record_.find('"', close);
    cell.append(record_, close, quote - close);
    if (quote == std::string::npos) {
      close = record_.size();
      if (!grow()) {
        if (texts) return is_none();
        if (sample_) return at_ = record_.size() + 1, false;
        fail(name_, "line {}: a quoted cell that begins here does not end", line);
      }
      cell += '\n';
      needed = true;
      continue;
    }
    close = quote + 1;
    if (close >= record_.size() || record_[close] != '"') break;
    cell += '"';
    needed = true;
  }
  if (texts) {
    const bool ends = close == record_.size() || record_[close] == '\t';
    const bool reaches_over = record_.size() > length || cell.find('\t') != std::string::npos;
    if (!ends || !(needed || reaches_over) || (reaches_over && are_records(length))) return is_none();
    at_ = close;
    return true;
  }
  // What stands behind the closing quote belongs to the cell, as in Python's csv; spaces do not.
  const std::size_t end = std::min(record_.find(delimiter_, close), record_.size());
  for (const char c : std::string_view(record_).substr(close, end - close))
    if (c != ' ') cell += c;
  at_ = end;
  return true;
}

// Is each line of the record, whose first one has this length, a record by itself, with as many columns as the one before?
bool DelimitedReader::are_records(std::size_t length) const {
  if (record_.size() == length && columns_ == 0) return false;
  const auto columns = [&](std::size_t begin, std::size_t end) {
    return static_cast<std::size_t>(
               std::count(record_.begin() + static_cast<std::ptrdiff_t>(begin), record_.begin() + static_cast<std::ptrdiff_t>(end), '\t')) +
        1;
  };
  const std::size_t expected = columns_ > 0 ? columns_ : columns(0, length);
  if (expected < 2) return false;
  for (std::size_t begin = 0; begin < record_.size();) {
    const std::size_t end = std::min(record_.find('\n', begin), record_.size());
    if (columns(begin, end) != expected) return false;
    begin = end + 1;
  }
  return true;
}

std::string delimiter_of(std::string_view path, const std::string& given) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return given != "auto" || path.ends_with(".csv") ? given : "tab";
}

std::string csv_cell(const std::string& text) {
  const bool plain = text.find_first_of(",;|\"\t\r\n") == std::string::npos &&
      (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + '"';
}

}  // namespace transformer
