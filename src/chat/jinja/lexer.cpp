#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "io/shared/characters.h"
#include "io/shared/unicode.h"
#include "transformer/core/error.h"

namespace transformer::jinja {
namespace {

using Kind = Token::Kind;

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where) : where_(where) {
    // Line breaks are \n; one at the very end is not part of the template.
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag();
      const std::string_view begin = tag == std::string::npos ? std::string_view() : std::string_view(source_).substr(tag, 2);
      std::size_t end = tag == std::string::npos ? source_.size() : tag;
      const char sign = tag != std::string::npos && tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      if (sign == '-') end = without_blanks(end);
      else if (sign != '+' && tag != std::string::npos && begin != "{{") end = without_indentation(end);
      add_data(at_, end);
      if (tag == std::string::npos) break;
      move_to(tag);
      line_begins_ = false;
      const std::size_t inside = tag + (sign == '-' || sign == '+' ? 3 : 2);
      if (begin == "{#") comment(inside);
      else if (begin == "{%" && !raw(inside)) tag_tokens(inside, Kind::block_begin, Kind::block_end, "%}");
      else if (begin == "{{") tag_tokens(inside, Kind::variable_begin, Kind::variable_end, "}}");
    }
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> message, Args&&... args) const {
    fail(where_, "line {}: {}", line_, fmt::format(message, std::forward<Args>(args)...));
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void add_data(std::size_t begin, std::size_t end) {
    if (end > begin) add(Kind::data, source_.substr(begin, end - begin));
  }

  // The next "{{", "{%" or "{#".
  std::size_t find_tag() const {
    for (std::size_t i = source_.find('{', at_); i != std::string::npos && i + 1 < source_.size(); i = source_.find('{', i + 1))
      if (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#') return i;
    return std::string::npos;
  }

  std::size_t without_blanks(std::size_t end) const {
    while (end > at_ && is_blank(source_[end - 1])) --end;
    return end;
  }

  // Where the line of a block begins, if nothing but white space stands before the block.
  std::size_t without_indentation(std::size_t end) const {
    std::size_t begin = end;
    while (begin > at_ && source_[begin - 1] != '\n') --begin;
    if (begin == at_ && !line_begins_) return end;
    return std::all_of(source_.begin() + static_cast<std::ptrdiff_t>(begin), source_.begin() + static_cast<std::ptrdiff_t>(end), is_blank)
        ? begin
        : end;
  }

  void move_to(std::size_t to) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_), source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  // After the end of a tag: a minus drops all white space, else a block drops one line break.
  void after_tag(std::size_t to, char sign, bool block) {
    std::size_t next = to;
    if (sign == '-')
      while (next < source_.size() && is_blank(source_[next])) ++next;
    else if (block && sign != '+' && next < source_.size() && source_[next] == '\n') ++next;
    move_to(next);
    line_begins_ = next > to && source_[next - 1] == '\n';
  }

  void comment(std::size_t inside) {
    const std::size_t end = source_.find("#}", inside);
    if (end == std::string::npos) refuse("a comment '{{#' has no end: expected '#}}'");
    after_tag(end + 2, end > inside ? source_[end - 1] : ' ', true);
  }

  std::size_t skip_blanks(std::size_t i) const {
    while (i < source_.size() && is_blank(source_[i])) ++i;
    return i;
  }

  // Whether `word` and the end of the block stand at i; then `to` and `sign` are what follows.
  bool is_block(std::size_t i, std::string_view word, std::size_t& to, char& sign) const {
    const std::string_view rest = std::string_view(source_).substr(i);
    if (!rest.starts_with(word)) return false;
    std::size_t end = skip_blanks(i + word.size());
    sign = ' ';
    if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) sign = source_[end++];
    if (!std::string_view(source_).substr(end).starts_with("%}")) return false;
    to = end + 2;
    return true;
  }

  // {% raw %} … {% endraw %}: true when that is what begins here.
  bool raw(std::size_t inside) {
    std::size_t body = 0;
    char sign = ' ';
    if (!is_block(skip_blanks(inside), "raw", body, sign) || sign == '+') return false;
    if (sign == '-') body = skip_blanks(body);
    for (std::size_t i = source_.find("{%", body); i != std::string::npos; i = source_.find("{%", i + 2)) {
      std::size_t word = i + 2, to = 0;
      const char before = word < source_.size() ? source_[word] : ' ';
      if (before == '-' || before == '+') ++word;
      if (!is_block(skip_blanks(word), "endraw", to, sign)) continue;
      move_to(body);
      line_begins_ = source_[body - 1] == '\n';
      std::size_t end = before == '-' ? without_blanks(i) : before == '+' ? i : without_indentation(i);
      add_data(body, end);
      move_to(i);
      after_tag(to, sign, true);
      return true;
    }
    refuse("a block 'raw' has no end: expected '{{% endraw %}}'");
  }

  // What stands between the beginning and the end of a tag.
  void tag_tokens(std::size_t inside, Kind begin, Kind end, std::string_view closing) {
    add(begin, "");
    move_to(inside);
    std::string open;  // brackets
    for (;;) {
      move_to(skip_blanks(at_));
      const std::string_view rest = std::string_view(source_).substr(at_);
      if (rest.empty()) refuse("the end of the template stands inside a tag: expected '{}'", closing);
      const bool sign = rest[0] == '-' || (rest[0] == '+' && end == Kind::block_end);
      if (open.empty() && rest.substr(sign ? 1 : 0).starts_with(closing)) {
        add(end, "");
        return after_tag(at_ + (sign ? 3 : 2), sign ? rest[0] : ' ', end == Kind::block_end);
      }
      if (begins_name(rest[0])) name(rest);
      else if (is_digit(rest[0])) number(rest);
      else if (rest[0] == '\'' || rest[0] == '"') text(rest);
      else symbol(rest, open);
    }
  }

  void name(std::string_view rest) {
    std::size_t n = 1;
    while (n < rest.size() && (begins_name(rest[n]) || is_digit(rest[n]))) ++n;
    add(Kind::name, std::string(rest.substr(0, n)));
    at_ += n;
  }

  void number(std::string_view rest) {
    std::size_t n = 0;
    std::string digits;
    auto run = [&] {
      while (n < rest.size() && (is_digit(rest[n]) || (rest[n] == '_' && n + 1 < rest.size() && is_digit(rest[n + 1])))) {
        if (rest[n] != '_') digits += rest[n];
        ++n;
      }
    };
    run();
    bool real = false;
    if (n + 1 < rest.size() && rest[n] == '.' && is_digit(rest[n + 1])) real = true, digits += rest[n++], run();
    if (n < rest.size() && (rest[n] == 'e' || rest[n] == 'E')) {
      const std::size_t sign = n + 1 < rest.size() && (rest[n + 1] == '+' || rest[n + 1] == '-') ? 1 : 0;
      if (n + 1 + sign < rest.size() && is_digit(rest[n + 1 + sign])) {
        real = true;
        digits += rest.substr(n, 1 + sign);
        n += 1 + sign;
        run();
      }
    }
    if (n < rest.size() && begins_name(rest[n])) refuse("'{}' is not a number", rest.substr(0, n + 1));
    add(real ? Kind::real : Kind::integer, digits);
    at_ += n;
  }

  void text(std::string_view rest) {
    std::string out;
    std::size_t i = 1;
    for (; i < rest.size() && rest[i] != rest[0]; ++i) {
      if (rest[i] == '\\' && i + 1 < rest.size()) i = escape(rest, i + 1, out);
      else out += rest[i];
    }
    if (i >= rest.size()) refuse("a text has no end: expected another {}", rest[0]);
    add(Kind::string, std::move(out));
    move_to(at_ + i + 1);
  }

  // What the backslash before rest[i] means, as in Python; the index of the last character it took.
  std::size_t escape(std::string_view rest, std::size_t i, std::string& out) const {
    constexpr std::string_view letters = "ntr\\'\"abfv", meanings = "\n\t\r\\'\"\a\b\f\v";
    const char c = rest[i];
    if (const std::size_t at = letters.find(c); at != std::string_view::npos) return out += meanings[at], i;
    if (c == '\n') return i;  // a line that goes on
    std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t code = 0;
    if (digits > 0) {
      if (i + digits >= rest.size()) refuse("'\\{}' needs {} digits after it", c, digits);
      for (std::size_t d = 1; d <= digits; ++d) {
        const auto h = static_cast<unsigned char>(rest[i + d]);
        if (std::isxdigit(h) == 0) refuse("'\\{}' needs {} digits after it", c, digits);
        code = code * 16 + static_cast<std::uint32_t>(is_digit(rest[i + d]) ? h - '0' : std::tolower(h) - 'a' + 10);
      }
    } else if (c >= '0' && c <= '7') {
      for (; digits < 3 && i + digits < rest.size() && rest[i + digits] >= '0' && rest[i + digits] <= '7'; ++digits)
        code = code * 8 + static_cast<std::uint32_t>(rest[i + digits] - '0');
      --digits;
    } else {
      return out += '\\', out += c, i;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) refuse("'\\{}' names no character", rest.substr(i, digits + 1));
    const auto character = static_cast<char32_t>(code);
    out += to_utf8({&character, 1});
    return i + digits;
  }

  void symbol(std::string_view rest, std::string& open) {
    constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view singles = "+-*/%~[](){}<>=.:|,;";
    std::size_t n = 0;
    for (std::string_view pair : pairs)
      if (rest.starts_with(pair)) n = 2;
    if (n == 0 && singles.find(rest[0]) != std::string_view::npos) n = 1;
    if (n == 0) refuse("unexpected character '{}'", rest.substr(0, 1));
    const char c = rest[0];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) refuse("unexpected '{}'", c);
      open.pop_back();
    }
    add(Kind::symbol, std::string(rest.substr(0, n)));
    at_ += n;
  }

  std::string source_;
  std::string_view where_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;  // what comes next stands at the beginning of a line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::string_view where) { return Lexer(source, where).run(); }

}  // namespace transformer::jinja
