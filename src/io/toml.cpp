#include "transformer/io/toml.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "io/read_file.h"
#include "transformer/core/error.h"

// The parser holds some mistakes, [[[]]] for one, to be impossible where it looks for them right after: it is not to assert that, nor to
// take it for granted.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace transformer {
namespace {

using Json = nlohmann::json;

constexpr int max_depth = 100;
constexpr std::size_t largest = std::size_t{16} << 20;

template <class... Args>
[[noreturn]] void refuse(std::string_view name, const toml::source_position& at, fmt::format_string<Args...> message, Args&&... args) {
  fail(name, "line {}, column {}: {}", at.line, at.column, fmt::format(message, std::forward<Args>(args)...));
}

toml::source_position place_of(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at), in_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  return {static_cast<toml::source_index>(1 + std::ranges::count(before, '\n')),
          static_cast<toml::source_index>(1 + std::ranges::count_if(in_line, [](char c) { return (c & 0xC0) != 0x80; }))};
}

// The last character of the string that begins here.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool lines = text.substr(begin).starts_with(three);
  for (std::size_t i = begin + (lines ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') ++i;
    else if (lines && text.substr(i).starts_with(three)) return std::min(text.find_first_not_of(quote, i), text.size()) - 1;
    else if (!lines && (text[i] == quote || text[i] == '\n')) return i;
  }
  return text.size();
}

// The parser's tables are destroyed level by level, one call inside the other: there must not be so many that the stack is spent.
void check_nesting(std::string_view text, std::string_view name) {
  std::vector<int> around;   // how deep each open bracket is
  int depth = 0, parts = 0;  // depth of the innermost one; levels that the key before a value adds to it: a.b.c has two
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '#': i = std::min(text.find('\n', i), text.size()) - 1; break;
      case '"':
      case '\'': i = end_of_string(text, i); break;
      case '.': ++parts; break;
      case ',':
      case '\n': parts = 0; break;
      case '[':
      case '{':
        around.push_back(depth);
        depth += parts + 1;
        parts = 0;
        break;
      case ']':
      case '}':
        if (!around.empty()) depth = around.back(), around.pop_back();
        parts = 0;
        break;
      default: break;
    }
    if (depth + parts > max_depth) refuse(name, place_of(text, i), "nested too deeply: at most {} levels are read", max_depth);
  }
}

Json to_json(const toml::node& node, std::string_view name, int depth) {
  const toml::source_position at = node.source().begin;
  if (depth > max_depth) refuse(name, at, "nested too deeply: at most {} levels are read", max_depth);
  if (const toml::table* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = to_json(value, name, depth + 1);
    return out;
  }
  if (const toml::array* list = node.as_array()) {
    Json out = Json::array();
    for (const toml::node& value : *list) out.push_back(to_json(value, name, depth + 1));
    return out;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  if (const auto* number = node.as_floating_point()) {
    if (!std::isfinite(number->get())) refuse(name, at, "{} is not a finite number, which cannot be used here", number->get());
    return number->get();
  }
  refuse(name, at, "dates and times are not supported: write them in quotes");
}

// What the parser says, and what to do about the most frequent mistakes.
[[noreturn]] void refuse(std::string_view name, const toml::parse_error& error) {
  std::string_view what = error.description();
  constexpr std::string_view before = "Error while parsing ";
  if (what.starts_with(before)) what.remove_prefix(before.size());
  const auto says = [&](std::string_view words) { return what.find(words) != std::string_view::npos; };
  const char* hint = says("value type") || says("boolean:") || says("value-terminator") ? " (a string needs quotes)"
      : says("utf-8")                                                                   ? ": save the file as UTF-8"
      : says("redefine")                                                                ? " (it is given twice)"
      : says("unknown escape")                                                          ? " (or write the string in 'single quotes')"
                                                                                        : "";
  refuse(name, error.source().begin, "{}{}", what, hint);
}

}  // namespace

nlohmann::json parse_toml(std::string_view text, std::string_view name) {
  if (text.size() > largest) fail(name, "the file has {} bytes: a configuration may have {}", text.size(), largest);
  check_nesting(text, name);
  try {
    return to_json(toml::parse(text), name, 0);
  } catch (const toml::parse_error& e) {
    refuse(name, e);
  }
}

nlohmann::json read_toml(const std::filesystem::path& path) { return parse_toml(read_file(path), path.string()); }

}  // namespace transformer
