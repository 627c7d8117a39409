#include "transformer/text/labelled.h"

#include <algorithm>
#include <charconv>

#include "transformer/io/config.h"
#include "transformer/io/json.h"
#include "transformer/text/utf8.h"

namespace transformer {
namespace {

using nlohmann::json;

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

std::vector<std::string> columns_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t begin = 0;;) {
    const std::size_t tab = line.find('\t', begin);
    out.emplace_back(line.substr(begin, tab - begin));
    if (tab == std::string_view::npos) return out;
    begin = tab + 1;
  }
}

// The number that a column is called by; none for a name.
std::optional<std::size_t> number_of(const std::string& column) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), number);
  if (column.empty() || error != std::errc() || end != column.data() + column.size()) return std::nullopt;
  return number;
}

// A line of tabs is none: it is a row of empty cells.
bool is_blank(const std::string& line) { return line.find_first_not_of(" \r") == std::string::npos; }

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
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
    : columns_(std::move(columns)), lines_(std::move(path)), json_(ends_with_any(lines_.path(), {".jsonl", ".ndjson", ".json"})) {
  if (ends_with_any(lines_.path(), {".csv"}))
    fail(lines_.path(), "commas also stand in texts: expected columns separated by tabs (.tsv) or JSON lines (.jsonl)");
  std::string first;
  if (!lines_.next(first)) fail(lines_.path(), "the file is empty: expected texts and their classes");
  if (json_) {
    if (columns_.text_column.empty()) columns_.text_column = "text";
    if (columns_.label_column.empty()) columns_.label_column = "label";
    check_apart(columns_.text_column, columns_.second_column, columns_.label_column, "key ");
    waiting_ = first;
  } else {
    find_columns(first);
  }
}

void LabelledReader::find_columns(const std::string& first) {
  const std::vector<std::string> names = columns_of(first);
  const auto named = [&](const std::string& column) { return !column.empty() && !number_of(column); };
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const bool by_name = named(columns_.text_column) || named(columns_.second_column) || named(columns_.label_column);
  const auto looks_like_one = [&] {
    if (has("label") && (has("text") || has("sentence"))) return true;
    const std::size_t label = columns_.label_column.empty() ? 1 : *number_of(columns_.label_column) - 1;
    return label < names.size() && names[label] == "label" && !label_occurs_again(label);
  };
  const bool header = columns_.header ? *columns_.header : by_name || looks_like_one();
  if (by_name && !header) fail(path(), "columns are given by name, but the file has no header: give their numbers, from 1");

  const auto place = [&](const std::string& column, const std::string& usual, std::size_t otherwise) -> std::size_t {
    if (const auto number = number_of(column)) {
      if (*number < 1 || *number > 100'000) fail(path(), "there is no column {}: columns count from 1", column);
      return *number - 1;
    }
    if (column.empty() && (!header || !has(usual.c_str()))) return otherwise;
    const auto found = std::find(names.begin(), names.end(), column.empty() ? usual : column);
    if (found == names.end()) fail(path(), "line 1 names no column '{}'{}; it has {}", column, did_you_mean(column, names), quoted(names));
    return static_cast<std::size_t>(found - names.begin());
  };
  text_ = place(columns_.text_column, has("text") ? "text" : "sentence", 0);
  second_ = place(columns_.second_column, "", 0);
  label_ = place(columns_.label_column, "label", 1);
  const auto number = [](std::size_t column) { return std::to_string(column + 1); };
  check_apart(number(text_), pairs() ? number(second_) : "", number(label_), "column ");
  if (!header) waiting_ = first;
}

// Two of them from one column is a slip, never a wish.
void LabelledReader::check_apart(const std::string& text, const std::string& second, const std::string& label, const char* kind) const {
  if (text == label) fail(path(), "the text and the label are both {}{}", kind, text);
  if (second.empty()) return;
  if (second == text) fail(path(), "the text and the second text are both {}{}", kind, text);
  if (second == label) fail(path(), "the second text and the label are both {}{}", kind, label);
}

// Is a class called "label"? Asked only where the first line would have it. Standard input cannot be read twice: there it is not.
bool LabelledReader::label_occurs_again(std::size_t column) const {
  if (path() == "-") return false;
  LineReader lines(path());
  std::string line;
  for (lines.next(line); lines.next(line);)
    if (const std::vector<std::string> columns = columns_of(line); column < columns.size() && columns[column] == "label") return true;
  return false;
}

std::optional<LabelledText> LabelledReader::next() {
  std::string line;
  if (waiting_) {
    line = std::move(*waiting_);
    waiting_.reset();
  } else if (!lines_.next(line)) {
    return std::nullopt;
  }
  // Files often end with empty lines; in the middle they are a mistake.
  if (const std::int64_t empty = lines_.number(); is_blank(line)) {
    while (lines_.next(line))
      if (!is_blank(line)) fail(path(), "line {} is empty: expected a text and its class, as in the lines that follow", empty);
    return std::nullopt;
  }
  LabelledText row = json_ ? from_json(line) : from_tsv(line);
  row.line = lines_.number();
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

LabelledText LabelledReader::from_tsv(const std::string& line) const {
  std::vector<std::string> columns = columns_of(line);
  const auto take = [&](std::size_t column, const char* what) -> std::string {
    if (column >= columns.size())
      fail(path(), "line {} has {} {}: {} is expected in column {} (columns are separated by tabs)", lines_.number(), columns.size(),
           columns.size() == 1 ? "column" : "columns", what, column + 1);
    return columns[column];
  };
  return {.text = take(text_, "the text"), .second = pairs() ? take(second_, "the second text") : "", .label = take(label_, "the class")};
}

LabelledText LabelledReader::from_json(const std::string& line) const {
  const json object = parse_json(line, fmt::format("{}, line {}", path(), lines_.number()));
  if (!object.is_object()) fail(path(), "line {} is {}: expected an object with a text and a label", lines_.number(), object.type_name());
  const auto value = [&](const std::string& key) -> const json& {
    const auto found = object.find(key);
    if (found != object.end()) return *found;
    std::vector<std::string> keys;
    for (const auto& item : object.items()) keys.push_back(item.key());
    fail(path(), "line {} has no key '{}'{}", lines_.number(), key, did_you_mean(key, keys));
  };
  const auto text = [&](const std::string& key) {
    const json& v = value(key);
    if (!v.is_string()) fail(path(), "line {}: '{}' is {}, expected a string", lines_.number(), key, v.type_name());
    return v.get<std::string>();
  };
  const std::string key = columns_.label_column == "label" && !object.contains("label") && object.contains("labels")
      ? "labels"
      : columns_.label_column;
  const json& label = value(key);
  const auto is_one = [](const json& v) { return v.is_string() || v.is_number() || v.is_boolean(); };
  if (label.is_array() ? !std::all_of(label.begin(), label.end(), is_one) : !is_one(label))
    fail(path(), "line {}: '{}' is {}, expected the name of a class, a number, or a list of them", lines_.number(), key,
         label.is_array() ? "a list of other things" : label.type_name());
  LabelledText row{.text = text(columns_.text_column), .second = pairs() ? text(columns_.second_column) : "", .label = spelled(label)};
  if (label.is_array()) std::transform(label.begin(), label.end(), std::back_inserter(row.several.emplace()), spelled);
  return row;
}

}  // namespace transformer
