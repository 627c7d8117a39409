#include "transformer/text/labelled.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "io/shared/json.h"
#include "io/shared/utf8.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

using nlohmann::json;

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

bool is_name(std::string_view cell, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return std::equal(cell.begin(), cell.end(), name.begin(), name.end(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  });
}
bool names_text(std::string_view cell) {
  return is_name(cell, {"text", "sentence", "review", "comment", "content", "document", "message", "tweet"});
}
bool names_label(std::string_view cell) { return is_name(cell, {"label", "labels", "class", "category", "target", "sentiment"}); }

// As pandas writes the numbers of rows.
bool names_index(std::string_view cell) { return cell.empty() || is_name(cell, {"unnamed: 0", "index", "id"}); }

bool is_numeric(std::string_view cell) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return error == std::errc() && end == cell.data() + cell.size();
}

// 0, 1, 2 …: the names that pandas gives to columns which have none. Rows may be numbered in front of them.
bool are_numbers_of_columns(const std::vector<std::string>& cells) {
  const std::size_t first = cells.front().empty() ? 1 : 0;
  if (cells.size() < first + 2) return false;
  for (std::size_t i = first; i < cells.size(); ++i)
    if (cells[i] != std::to_string(i - first)) return false;
  return true;
}

bool are_words(const std::vector<std::string>& cells) {
  return std::all_of(cells.begin(), cells.end(), [](const std::string& cell) {
    return cell.size() <= 40 && cell.find_first_of(" \t\n.,;:!?\"") == std::string::npos && !is_numeric(cell);
  });
}

// The number that a column is called by; none for a name.
std::optional<std::size_t> number_of(const std::string& column) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), number);
  if (column.empty() || error != std::errc() || end != column.data() + column.size()) return std::nullopt;
  return number;
}

bool is_empty_row(const std::string& line) { return line.find_first_not_of(" \r") == std::string::npos; }
// A line of delimiters is not blank: it is a row of empty cells.
bool is_empty_row(const std::vector<std::string>& cells) { return cells.size() == 1 && is_empty_row(cells.front()); }

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

// The next of what `read` reads, which is not blank. Files often end with empty lines; in the middle they are a mistake.
template <class Row>
bool next_row(const std::string& path, Row& row, auto&& read, auto&& line) {
  if (!read(row)) return false;
  if (!is_empty_row(row)) return true;
  const std::int64_t empty = line();
  while (read(row))
    if (!is_empty_row(row)) fail(path, "line {} is empty: expected a text and its class, as in the lines that follow", empty);
  return false;
}

std::string spelled(const json& label) { return label.is_string() ? label.get<std::string>() : label.dump(); }

// What stands between separators, without the spaces around it.
std::vector<std::string> split_labels(std::string_view cell, std::string_view separator) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= cell.size();) {
    const std::size_t end = std::min(cell.find(separator, begin), cell.size());
    std::string_view label = cell.substr(begin, end - begin);
    label.remove_prefix(std::min(label.find_first_not_of(' '), label.size()));
    label = label.substr(0, label.find_last_not_of(' ') + 1);
    if (!label.empty()) out.emplace_back(label);
    begin = end + separator.size();
  }
  return out;
}

}  // namespace

LabelledReader::LabelledReader(std::string path, LabelledColumns columns)
    : columns_(std::move(columns)), lines_(std::make_shared<LineReader>(std::move(path))),
      json_(ends_with_any(lines_->path(), {".jsonl", ".ndjson", ".json"})), csv_(ends_with_any(lines_->path(), {".csv"})) {
  if (json_) {
    if (columns_.text_column.empty()) columns_.text_column = "text";
    if (columns_.label_column.empty()) columns_.label_column = "label";
    check_apart(columns_.text_column, columns_.second_column, columns_.label_column, "key ");
    return;
  }
  records_.emplace([lines = lines_](std::string& line) { return lines->next(line); }, this->path(),
                   DelimitedOptions{.delimiter = delimiter_of(this->path(), columns_.delimiter)});
  Cells first;
  if (!records_->next(first)) fail(this->path(), "the file is empty: expected texts and their classes");
  find_columns(first);
}

void LabelledReader::find_columns(const Cells& first) {
  const auto named = [&](const std::string& column) { return !column.empty() && !number_of(column); };
  const auto place_of = [&](auto&& is) { return static_cast<std::size_t>(std::find_if(first.begin(), first.end(), is) - first.begin()); };
  const std::size_t none = first.size();
  // Where they stand when they are not named.
  const bool numbered = first.size() > 2 && names_index(first.front());
  std::size_t text = place_of(names_text), label = place_of(names_label);
  const bool usual = text != none && label != none;
  const auto beside = [&](std::size_t other) { return numbered ? (other == 1 ? 2 : 1) : (other == 0 ? 1 : 0); };
  if (label == none) label = text == none ? (numbered ? 2 : 1) : beside(text);
  if (text == none) text = beside(label);

  const bool by_name = named(columns_.text_column) || named(columns_.second_column) || named(columns_.label_column);
  bool header = columns_.header == Header::yes;
  if (columns_.header == Header::automatic) {
    const std::size_t given = number_of(columns_.label_column).value_or(0), given_text = number_of(columns_.text_column).value_or(0);
    header = by_name || usual || looks_like_header(first, given_text > 0 ? given_text - 1 : text, given > 0 ? given - 1 : label);
  }
  if (by_name && !header) fail(path(), "columns are given by name, but the file has no header: give their numbers, from 1");
  if (!header) text = 0, label = 1;

  const auto place = [&](const std::string& column, std::size_t otherwise) -> std::size_t {
    if (column.empty()) return otherwise;
    if (const auto number = number_of(column)) {
      if (*number < 1 || *number > 100'000) fail(path(), "there is no column {}: columns count from 1", column);
      return *number - 1;
    }
    const auto found = std::find(first.begin(), first.end(), column);
    if (found == first.end()) fail(path(), "line 1 names no column '{}'{}; it has {}", column, did_you_mean(column, first), quoted(first));
    return static_cast<std::size_t>(found - first.begin());
  };
  text_ = place(columns_.text_column, text);
  second_ = place(columns_.second_column, 0);
  label_ = place(columns_.label_column, label);
  const auto number = [](std::size_t column) { return std::to_string(column + 1); };
  check_apart(number(text_), pairs() ? number(second_) : "", number(label_), "column ");
  if (!header) waiting_ = first;
}

// Nobody has said whether the first record is a header: the others tell. Standard input cannot be read twice.
bool LabelledReader::looks_like_header(const Cells& first, std::size_t text, std::size_t label) const {
  if (label >= first.size() || text >= first.size()) return false;
  if (path() == "-") return names_label(first[label]);
  const bool numbers = are_numbers_of_columns(first);
  if (!numbers && is_numeric(first[label])) return false;
  std::map<std::string, std::int64_t> others;
  DelimitedReader records(this->records());
  Cells cells;
  records.next(cells);
  while (records.next(cells)) {
    if (label >= cells.size() || text >= cells.size()) continue;
    if (numbers) return !is_numeric(cells[text]);
    if (cells[label] == first[label]) return false;
    ++others[cells[label]];
  }
  if (numbers || others.empty()) return false;
  if (names_label(first[label])) return true;
  constexpr std::int64_t enough = 10;  // rows that make a class of one suspicious
  std::int64_t rows = 0;
  bool alone = true, all_numbers = true;
  for (const auto& [name, count] : others) rows += count, alone = alone && count > 1, all_numbers = all_numbers && is_numeric(name);
  // A word above numbers is their name, but for those that stand for a number that is missing.
  if (all_numbers && rows > 1 && are_words({first[label]}) && !is_name(first[label], {"na", "n/a", "null", "none"})) return true;
  if (csv_ && are_words(first)) return true;
  if (alone && rows >= enough)
    fail(path(),
         "line 1 has the class '{}', which no other line has: if that line has the names of the columns, give --header yes, else "
         "--header no",
         first[label]);
  return false;
}

DelimitedReader LabelledReader::records() const {
  return {[lines = std::make_shared<LineReader>(path())](std::string& line) { return lines->next(line); },
          path(),
          {.delimiter = delimiter_of(path(), columns_.delimiter)}};
}

// Two of them from one column is a slip, never a wish.
void LabelledReader::check_apart(const std::string& text, const std::string& second, const std::string& label, const char* kind) const {
  if (text == label) fail(path(), "the text and the label are both {}{}", kind, text);
  if (second.empty()) return;
  if (second == text) fail(path(), "the text and the second text are both {}{}", kind, text);
  if (second == label) fail(path(), "the second text and the label are both {}{}", kind, label);
}

std::optional<LabelledText> LabelledReader::next() {
  LabelledText row;
  if (!(json_ ? next_json(row) : next_record(row))) return std::nullopt;
  if (!row.several && !columns_.label_separator.empty()) row.several = split_labels(row.label, columns_.label_separator);
  if (!row.several) check_label(row.label, row.line);
  else
    for (const std::string& label : *row.several) check_label(label, row.line);
  return row;
}

void LabelledReader::check_label(const std::string& label, std::int64_t line) const {
  if (label.empty()) fail(path(), "line {}: the class is empty", line);
  if (!is_valid_utf8(label)) fail(path(), "line {}: the class is not UTF-8 text", line);
  if (label.find_first_of("\t\n\r") != std::string::npos)  // it will stand in lines, between tabs
    fail(path(), "line {}: the class {} has a tab or a line end in it: expected a name on one line", line, json(label).dump());
}

bool LabelledReader::next_json(LabelledText& row) {
  std::string line;
  const bool begun = lines_->number() > 0;
  if (!next_row(
          path(), line, [&](std::string& l) { return lines_->next(l); }, [&] { return lines_->number(); })) {
    if (!begun) fail(path(), "the file is empty: expected texts and their classes");
    return false;
  }
  row = from_json(line);
  row.line = lines_->number();
  return true;
}

bool LabelledReader::next_record(LabelledText& row) {
  Cells cells;
  const auto read = [&](Cells& c) {
    if (!waiting_) return records_->next(c);
    c = std::move(*waiting_);
    waiting_.reset();
    return true;
  };
  if (!next_row(path(), cells, read, [&] { return records_->line(); })) return false;
  row = from_cells(cells);
  row.line = records_->line();
  return true;
}

LabelledText LabelledReader::from_cells(const Cells& cells) const {
  const auto take = [&](std::size_t column, const char* what) -> std::string {
    if (column >= cells.size())
      fail(path(), "line {} has {} {}: {} is expected in column {} (columns are separated by {}; --delimiter sets another one)",
           records_->line(), cells.size(), cells.size() == 1 ? "column" : "columns", what, column + 1,
           records_->delimiter() == '\t' ? "tabs" : fmt::format("'{}'", records_->delimiter()));
    return cells[column];
  };
  return {.text = take(text_, "the text"), .second = pairs() ? take(second_, "the second text") : "", .label = take(label_, "the class")};
}

LabelledText LabelledReader::from_json(const std::string& line) const {
  const json object = parse_json(line, fmt::format("{}, line {}", path(), lines_->number()));
  if (!object.is_object()) fail(path(), "line {} is {}: expected an object with a text and a label", lines_->number(), object.type_name());
  const auto value = [&](const std::string& key) -> const json& {
    const auto found = object.find(key);
    if (found != object.end()) return *found;
    std::vector<std::string> keys;
    for (const auto& item : object.items()) keys.push_back(item.key());
    fail(path(), "line {} has no key '{}'{}", lines_->number(), key, did_you_mean(key, keys));
  };
  const auto text = [&](const std::string& key) {
    const json& v = value(key);
    if (!v.is_string()) fail(path(), "line {}: '{}' is {}, expected a string", lines_->number(), key, v.type_name());
    return v.get<std::string>();
  };
  const std::string key = columns_.label_column == "label" && !object.contains("label") && object.contains("labels")
      ? "labels"
      : columns_.label_column;
  const json& label = value(key);
  const auto is_one = [](const json& v) { return v.is_string() || v.is_number() || v.is_boolean(); };
  if (label.is_array() ? !std::all_of(label.begin(), label.end(), is_one) : !is_one(label))
    fail(path(), "line {}: '{}' is {}, expected the name of a class, a number, or a list of them", lines_->number(), key,
         label.is_array() ? "a list of other things" : label.type_name());
  LabelledText row{.text = text(columns_.text_column), .second = pairs() ? text(columns_.second_column) : "", .label = spelled(label)};
  if (label.is_array()) std::transform(label.begin(), label.end(), std::back_inserter(row.several.emplace()), spelled);
  return row;
}

}  // namespace transformer
