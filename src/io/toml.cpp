#include "transformer/io/toml.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/read_file.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using Json = nlohmann::json;
using Object = Json::object_t;

constexpr int max_depth = 100;
constexpr std::string_view digits = "0123456789", letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7F; }
bool is_bare(char c) { return is_digit(c) || is_one_of(c, letters) || c == '_' || c == '-'; }

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Json document() {
    check_utf8();
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
    Json root = Json::object();
    Json* table = &root;
    int depth = 0;
    while (skip_blank_lines(), !end()) {
      if (peek() == '[') {
        table = header(root, depth);
      } else {
        key_value(*table, depth);
      }
      end_of_line();
    }
    return root;
  }

 private:
  // How a table or a list of tables came to be, which says what may be added to it:
  //   implicit  as the parent in [parent.child]; a header may still define it
  //   header    by a header of its own
  //   dotted    by a dotted key; only dotted keys add values to it, headers only tables
  //   list      [[list]]
  // One that is not known here is a value, and complete: {…} or […].
  enum class Made : std::uint8_t { implicit, header, dotted, list, value };
  struct Key {
    std::string name;
    std::size_t at;
  };

  // --- text ---
  bool end() const { return at_ == text_.size(); }
  char peek() const { return end() ? '\0' : text_[at_]; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!starts(what)) return false;
    at_ += what.size();
    return true;
  }

  template <class... Args>
  [[noreturn]] void refuse(std::size_t at, fmt::format_string<Args...> message, Args&&... args) const {
    const std::string_view before = text_.substr(0, at);
    const std::size_t newline = before.rfind('\n');
    const std::string_view in_line = newline == std::string_view::npos ? before : before.substr(newline + 1);
    const auto column = 1 + std::count_if(in_line.begin(), in_line.end(), [](char c) { return (c & 0xC0) != 0x80; });  // characters
    fail(name_, "line {}, column {}: {}", 1 + std::count(before.begin(), before.end(), '\n'), column,
         fmt::format(message, std::forward<Args>(args)...));
  }

  // What stands here, for a message.
  std::string found() const {
    if (end()) return "the end of the file";
    if (peek() == '\n' || starts("\r\n")) return "the end of the line";
    if (is_control(peek())) return fmt::format("the control character 0x{:02x}", peek());
    std::size_t size = 1;
    while (at_ + size < text_.size() && (text_[at_ + size] & 0xC0) == 0x80) ++size;
    return fmt::format("'{}'", text_.substr(at_, size));
  }
  [[noreturn]] void expected(std::string_view what) const { refuse(at_, "expected {}, found {}", what, found()); }

  void check_utf8() const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text_.data());
    for (std::size_t i = 0; i < text_.size();) {
      const std::size_t at = i;
      UChar32 c = 0;
      U8_NEXT(bytes, i, text_.size(), c);
      if (c < 0) refuse(at, "this is not UTF-8 text: save the file as UTF-8");
    }
  }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  bool take_newline() { return take("\n") || take("\r\n"); }

  void skip_comment() {
    if (peek() != '#') return;
    while (!end() && peek() != '\n' && !starts("\r\n")) {
      if (is_control(peek())) expected("text in a comment");
      ++at_;
    }
  }

  // Spaces, newlines and comments.
  void skip_blank_lines() {
    do {
      skip_spaces();
      skip_comment();
    } while (take_newline());
  }

  void end_of_line() {
    skip_spaces();
    skip_comment();
    if (!end() && !take_newline()) expected("the end of the line");
  }

  // --- keys and tables ---
  std::vector<Key> dotted_key() {
    std::vector<Key> path;
    do {
      skip_spaces();
      const std::size_t at = at_;
      if (starts("\"\"\"") || starts("'''")) refuse(at, "a key cannot be a multi-line string");
      if (peek() == '"' || peek() == '\'') {
        path.push_back({string(), at});
      } else {
        while (is_bare(peek())) ++at_;
        if (at_ == at) expected("a key (letters, digits, _ and -, or in quotes)");
        path.push_back({std::string(text_.substr(at, at_ - at)), at});
      }
      skip_spaces();
    } while (take("."));
    return path;
  }

  Made made(const Json& value) const {
    const void* place = value.is_object() ? static_cast<const void*>(value.get_ptr<const Object*>())
                                          : static_cast<const void*>(value.get_ptr<const Json::array_t*>());
    const auto it = made_.find(place);
    return it == made_.end() ? Made::value : it->second;
  }
  // The heap address of what the value holds: it stays where it is when the value itself moves.
  void set_made(const Json& table, Made how) { made_[table.get_ptr<const Object*>()] = how; }
  Json* new_table(Json& place, Made how) {
    place = Json::object();
    set_made(place, how);
    return &place;
  }

  void check_depth(std::size_t at, std::size_t depth) const {
    if (depth > max_depth) refuse(at, "nested too deeply: at most {} levels are read", max_depth);
  }

  // [a.b] or [[a.b]]: the table it opens; `depth` becomes that of its values.
  Json* header(Json& root, int& depth) {
    const std::size_t begin = at_;
    const bool list = take("[[");
    if (!list) take("[");
    const std::vector<Key> path = dotted_key();
    if (!take(list ? "]]" : "]")) expected(list ? "']]' after the name of a list of tables" : "']' after the name of a table");
    Json* table = &root;
    depth = 0;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      Json& next = (*table)[path[i].name];
      if (next.is_null()) {
        table = new_table(next, Made::implicit);
      } else if (const Made how = made(next); how == Made::value) {
        refuse(path[i].at, "'{}' already has a value and cannot get more in [{}]", path[i].name, text_.substr(begin + 1, at_ - begin - 2));
      } else {
        if (how == Made::list) ++depth;
        table = how == Made::list ? &next.back() : &next;
      }
      check_depth(path[i].at, static_cast<std::size_t>(++depth));
    }
    const Key& last = path.back();
    Json& place = (*table)[last.name];
    depth += list ? 2 : 1;
    check_depth(last.at, static_cast<std::size_t>(depth));
    if (!list) {
      if (place.is_null()) return new_table(place, Made::header);
      if (made(place) != Made::implicit) refuse(last.at, "'{}' is defined twice", last.name);
      set_made(place, Made::header);
      return &place;
    }
    if (place.is_null()) {
      place = Json::array();
      made_[place.get_ptr<const Json::array_t*>()] = Made::list;
    } else if (made(place) != Made::list) {
      refuse(last.at, "'{}' is already defined, and not as a list of tables by [[{}]]", last.name, last.name);
    }
    place.push_back(nullptr);
    return new_table(place.back(), Made::header);
  }

  void key_value(Json& table, int depth) {
    const std::vector<Key> path = dotted_key();
    check_depth(path.front().at, static_cast<std::size_t>(depth) + path.size());
    Json* inside = &table;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      Json& next = (*inside)[path[i].name];
      if (next.is_null()) {
        new_table(next, Made::dotted);
      } else if (const Made how = made(next); how == Made::implicit) {
        set_made(next, Made::dotted);
      } else if (how != Made::dotted) {
        refuse(path[i].at, "'{}' is already defined and cannot get more values here", path[i].name);
      }
      inside = &next;
    }
    if (inside->contains(path.back().name)) refuse(path.back().at, "the key '{}' is given twice", path.back().name);
    if (!take("=")) expected("'=' after the key");
    skip_spaces();
    Json read = value(depth + static_cast<int>(path.size()));
    (*inside)[path.back().name] = std::move(read);
  }

  // --- values ---
  Json value(int depth) {
    const char c = peek();
    if (c == '"' || c == '\'') return string();
    if (c == '[') return list(depth + 1);
    if (c == '{') return inline_table(depth + 1);
    return word();
  }

  Json list(int depth) {
    const std::size_t begin = at_++;
    check_depth(begin, static_cast<std::size_t>(depth));
    Json items = Json::array();
    while (skip_blank_lines(), !take("]")) {
      if (end()) refuse(begin, "this list has no end: expected ']'");
      items.push_back(value(depth));
      skip_blank_lines();
      if (!take(",") && peek() != ']') end() ? refuse(begin, "this list has no end: expected ']'") : expected("',' or ']' in a list");
    }
    return items;
  }

  Json inline_table(int depth) {
    const std::size_t begin = at_++;
    check_depth(begin, static_cast<std::size_t>(depth));
    Json table = Json::object();
    skip_spaces();
    if (take("}")) return table;
    do {
      key_value(table, depth);
      skip_spaces();
    } while (take(","));
    if (!take("}")) end() ? refuse(begin, "this table has no end: expected '}}'") : expected("',' or '}' in a table on one line");
    return table;
  }

  std::string string() {
    const std::size_t begin = at_;
    const char quote = peek();
    const std::string three(3, quote);
    const bool multi = take(three);
    if (!multi) ++at_;
    if (multi) take_newline();  // one right after the opening quotes does not count
    std::string out;
    while (true) {
      if (end()) refuse(begin, "this string has no end: expected {}", multi ? three : std::string(1, quote));
      if (multi && take(three)) {
        for (int more = 0; more < 2 && peek() == quote; ++more) ++at_, out += quote;  // """a"" has two quotes inside
        return out;
      }
      if (!multi && peek() == quote) return ++at_, out;
      if (take_newline()) {
        if (!multi) refuse(begin, "this string has no end: expected {} in the same line (or {} around several lines)", quote, three);
        out += '\n';
      } else if (quote == '"' && peek() == '\\') {
        escape(out, multi);
      } else if (is_control(peek())) {
        expected("text in a string (write control characters as \\u0000)");
      } else {
        out += text_[at_++];
      }
    }
  }

  void escape(std::string& out, bool multi) {
    const std::size_t begin = at_++;
    constexpr std::string_view names = "btnfr\"\\", values = "\b\t\n\f\r\"\\";
    if (const std::size_t which = end() ? std::string_view::npos : names.find(peek()); which != std::string_view::npos) {
      out += values[which];
      ++at_;
      return;
    }
    if (peek() == 'u' || peek() == 'U') {
      const std::size_t size = peek() == 'u' ? 4 : 8;
      const std::string_view hex = text_.substr(++at_, size);
      std::uint32_t c = 0;
      const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), c, 16);
      if (hex.size() != size || read.ptr != hex.data() + size)
        refuse(begin, "expected {} hexadecimal digits after \\{}", size, size == 4 ? 'u' : 'U');
      if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) refuse(begin, "\\{}{} is not a Unicode character", size == 4 ? 'u' : 'U', hex);
      at_ += size;
      char bytes[U8_MAX_LENGTH];
      std::size_t length = 0;
      U8_APPEND_UNSAFE(bytes, length, c);
      out.append(bytes, length);
      return;
    }
    if (multi) {  // at the end of a line: everything up to the next text is left out
      skip_spaces();
      if (take_newline()) {
        do skip_spaces();
        while (take_newline());
        return;
      }
    }
    at_ = begin + 1;
    expected("one of b t n f r \" \\ uXXXX UXXXXXXXX after the \\ in a string (or write the string in 'single quotes')");
  }

  // true, false and numbers.
  Json word() {
    const std::size_t begin = at_;
    while (is_bare(peek()) || peek() == '+' || peek() == '.' || peek() == ':') ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) expected("a value");
    if (word == "true" || word == "false") return word == "true";
    std::string_view number = word;
    const bool negative = number.front() == '-', sign = negative || number.front() == '+';
    if (sign) number.remove_prefix(1);
    if (number == "inf" || number == "nan") refuse(begin, "{} is not a finite number, which cannot be used here", word);
    if (looks_like_date(word)) refuse(begin, "dates and times are not supported: write \"{}\" in quotes", word);
    if (number.empty() || !is_digit(number.front())) refuse(begin, "expected a value, found '{}' (a string needs quotes)", word);

    const std::string_view kind = number.substr(0, 2);
    const int base = kind == "0x" ? 16 : kind == "0o" ? 8 : kind == "0b" ? 2 : 10;
    std::string plain = negative ? "-" : "";
    if (base != 10) {
      number.remove_prefix(2);
      constexpr std::string_view hex = "0123456789abcdefABCDEF";
      if (sign || !take_digits(number, hex.substr(0, base == 16 ? hex.size() : static_cast<std::size_t>(base)), plain) || !number.empty())
        refuse(begin, "'{}' is not an integer of base {}", word, base);
      return integer(plain, base, begin, word);
    }
    const auto bad = [&] { refuse(begin, "'{}' is not a number (a string needs quotes)", word); };
    if (number.size() > 1 && number[0] == '0' && (is_digit(number[1]) || number[1] == '_'))
      refuse(begin, "'{}': a number cannot begin with 0", word);
    if (!take_digits(number, digits, plain)) bad();
    if (number.empty()) return integer(plain, 10, begin, word);
    const auto part = [&](std::string_view lead) {  // a point or an e, and digits
      if (number.empty() || !is_one_of(number.front(), lead)) return;
      plain += number.front();
      number.remove_prefix(1);
      if (lead != "." && !number.empty() && is_one_of(number.front(), "+-")) {
        plain += number.front();
        number.remove_prefix(1);
      }
      if (!take_digits(number, digits, plain)) bad();
    };
    part(".");
    part("eE");
    if (!number.empty()) bad();
    double result = 0.0;
    if (std::from_chars(plain.data(), plain.data() + plain.size(), result).ec != std::errc())
      refuse(begin, "{} is too large or too small for a number of 64 bits", word);
    return result;
  }

  Json integer(const std::string& plain, int base, std::size_t at, std::string_view word) const {
    std::int64_t result = 0;
    if (std::from_chars(plain.data(), plain.data() + plain.size(), result, base).ec != std::errc())
      refuse(at, "{} does not fit an integer of 64 bits", word);
    return result;
  }

  // Moves the digits at the front of text to `to`; an underscore may stand between two of them. False when there are none.
  static bool take_digits(std::string_view& text, std::string_view set, std::string& to) {
    std::size_t i = 0;
    for (; i < text.size(); ++i) {
      const bool between = i > 0 && text[i - 1] != '_' && i + 1 < text.size() && is_one_of(text[i + 1], set);
      if (is_one_of(text[i], set)) to += text[i];
      else if (text[i] != '_' || !between) break;
    }
    text.remove_prefix(i);
    return i > 0;
  }

  // 1979-05-27… or 07:32…
  static bool looks_like_date(std::string_view word) {
    const auto all_digits = [&](std::size_t n) {
      return word.size() > n && std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(n), is_digit);
    };
    return (all_digits(4) && word[4] == '-') || (all_digits(2) && word[2] == ':');
  }

  std::string_view text_, name_;
  std::size_t at_ = 0;
  std::unordered_map<const void*, Made> made_;
};

}  // namespace

nlohmann::json parse_toml(std::string_view text, std::string_view name) { return Parser(text, name).document(); }

nlohmann::json read_toml(const std::filesystem::path& path) { return parse_toml(read_file(path), path.string()); }

}  // namespace transformer
