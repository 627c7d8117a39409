#include "transformer/text/tagged.h"

#include <algorithm>
#include <charconv>

#include "io/shared/blank.h"
#include "io/shared/json.h"
#include "io/shared/utf8.h"
#include "transformer/io/config.h"

namespace transformer {
namespace {

using nlohmann::json;

bool is_json_name(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> out;
  for (std::size_t begin = line.find_first_not_of(" \t\r"); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    out.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(" \t\r", end);
  }
  return out;
}

}  // namespace

TaggedReader::TaggedReader(std::string path, TaggedColumns columns)
    : columns_(std::move(columns)), lines_(std::move(path)), json_(is_json_name(lines_.path())) {
  const auto number = [&](const std::string& column) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), value);
    if (error != std::errc() || end != column.data() + column.size() || value < 1 || value > 100'000)
      fail(this->path(), "there is no column '{}': columns of words and tags are given by number, from 1", column);
    return value - 1;
  };
  if (json_) {
    if (columns_.word_column.empty()) columns_.word_column = "tokens";
    if (columns_.tag_column.empty()) columns_.tag_column = "tags";
    if (columns_.word_column == columns_.tag_column) fail(this->path(), "the words and the tags are both key {}", columns_.tag_column);
    return;
  }
  if (!columns_.word_column.empty()) word_ = number(columns_.word_column);
  if (!columns_.tag_column.empty()) tag_ = number(columns_.tag_column);
  if (tag_ == word_) fail(this->path(), "the words and the tags are both column {}", word_ + 1);
}

std::optional<TaggedText> TaggedReader::next() {
  TaggedText text;
  for (std::string line; lines_.next(line);) {
    if (is_blank(line)) {
      if (text.words.empty()) continue;
      break;
    }
    if (json_) {
      text = from_json(line);
      break;
    }
    if (!add(text, line) && !text.words.empty()) break;
  }
  if (text.words.empty()) {
    if (lines_.number() == 0) fail(path(), "the file is empty: expected words with their tags");
    return std::nullopt;
  }
  check(text);
  return text;
}

bool TaggedReader::add(TaggedText& text, const std::string& line) {
  const std::vector<std::string_view> columns = columns_of(line);
  if (columns.front() == "-DOCSTART-") return false;
  const std::size_t needed = std::max({word_ + 1, tag_.value_or(0) + 1, std::size_t{2}});
  if (columns.size() < needed)
    fail(path(), "line {} has {} {}: expected a word and its tag, separated by a space or a tab{}", lines_.number(), columns.size(),
         columns.size() == 1 ? "column" : "columns", needed > 2 ? fmt::format(", in {} columns", needed) : "");
  const std::size_t tag = tag_.value_or(columns.size() - 1);
  if (tag == word_) fail(path(), "line {}: the word and its tag are both column {}", lines_.number(), tag + 1);
  text.words.emplace_back(columns[word_]);
  text.tags.emplace_back(columns[tag]);
  text.lines.push_back(lines_.number());
  return true;
}

TaggedText TaggedReader::from_json(const std::string& line) const {
  const std::int64_t number = lines_.number();
  const json object = parse_json(line, fmt::format("{}, line {}", path(), number));
  if (!object.is_object()) fail(path(), "line {} is {}: expected an object with words and their tags", number, object.type_name());
  const auto list = [&](const std::string& key) {
    const auto found = object.find(key);
    if (found == object.end()) {
      std::vector<std::string> keys;
      for (const auto& item : object.items()) keys.push_back(item.key());
      fail(path(), "line {} has no key '{}'{}", number, key, did_you_mean(key, keys));
    }
    if (!found->is_array()) fail(path(), "line {}: '{}' is {}, expected a list", number, key, found->type_name());
    std::vector<std::string> out;
    for (const json& item : *found) {
      if (!item.is_string() && !item.is_number_integer())
        fail(path(), "line {}: '{}' has {} in it, expected strings", number, key, item.type_name());
      out.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    }
    return out;
  };
  TaggedText text{.words = list(columns_.word_column), .tags = list(columns_.tag_column), .lines = {}};
  if (text.words.size() != text.tags.size())
    fail(path(), "line {} has {} words and {} tags: expected a tag for each word", number, text.words.size(), text.tags.size());
  if (text.words.empty()) fail(path(), "line {} has no words", number);
  text.lines.assign(text.words.size(), number);
  return text;
}

void TaggedReader::check(const TaggedText& text) const {
  for (std::size_t i = 0; i < text.words.size(); ++i) {
    if (is_blank(text.words[i])) fail(path(), "line {}: word {} is empty", text.lines[i], i + 1);
    const std::string& tag = text.tags[i];
    if (tag.empty()) fail(path(), "line {}: the tag of '{}' is empty", text.lines[i], text.words[i]);
    if (!is_valid_utf8(tag)) fail(path(), "line {}: the tag is not UTF-8 text", text.lines[i]);
    if (tag.find_first_of("\t\n\r") != std::string::npos)
      fail(path(), "line {}: the tag {} has a tab or a line end in it", text.lines[i], json(tag).dump());
  }
}

}  // namespace transformer
