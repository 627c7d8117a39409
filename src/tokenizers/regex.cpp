#include "tokenizers/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <vector>

#include "io/shared/characters.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::size_t longest_pattern = 65536;

// \s and \w as Oniguruma has them; PCRE2's take in U+180E, and leave out marks. Of the numbers that are no digits, \w has
// those of Latin-1 alone: ² ³ ¹ ¼ ½ ¾.
constexpr std::string_view space_set = R"(\t-\r\x20\x{85}\p{Z})",
                           word_set = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})", hex_set = "0-9a-fA-F";

std::string message(int code) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(code, text, sizeof(text)) > 0 ? reinterpret_cast<const char*>(text) : fmt::format("error {}", code);
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return out_;
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("regular expression", "{} in '{}' is not supported", what, in_.substr(0, 200));
  }

  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  void step() {
    const char c = peek();
    if (c == '\\') return escape(false);
    if (c == '[') return set();
    if (c == '(') return open();
    if (c == '{' && interval()) return;
    ++at_;
    if (c == ')' && !groups_.empty()) {
      atom_ = groups_.back();
      groups_.pop_back();
    } else if (c != '*' && c != '+' && c != '?' && c != '|' && c != ')') {
      if (!continues_character(c)) atom_ = out_.size();
    }
    out_ += c;
  }

  void open() {
    if (peek(1) == '*') refuse("'(*'");
    groups_.push_back(out_.size());
    out_ += '(';
    ++at_;
    if (peek() != '?') return;
    out_ += '?';
    ++at_;
    for (; std::string_view("imx-").find(peek()) != std::string_view::npos && peek() != '\0'; ++at_) out_ += peek() == 'm' ? 's' : peek();
  }

  // {n}, {n,}, {,m}, {n,m}: with a + behind it, Oniguruma repeats the whole, PCRE2 would take it for "possessive".
  bool interval() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && (in_[end] == ',' || (in_[end] >= '0' && in_[end] <= '9'))) ++end;
    if (end == in_.size() || in_[end] != '}' || end == at_ + 1 || out_.empty()) return false;
    std::string counts(in_.substr(at_ + 1, end - at_ - 1));
    if (counts.front() == ',') counts.insert(0, "0");
    at_ = end + 1;
    out_ += '{' + counts + '}';
    if (peek() == '+') {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    return true;
  }

  void escape(bool in_set) {
    const char c = peek(1);
    if (c == '\0') refuse("a pattern that ends with \\");
    at_ += 2;
    const auto put = [&](std::string_view members, bool negated) {
      if (in_set && negated) refuse(fmt::format("\\{} between brackets", c));
      if (in_set) out_ += members;
      else atom(fmt::format("[{}{}]", negated ? "^" : "", members));
    };
    switch (c) {
      case 's': return put(space_set, false);
      case 'w': return put(word_set, false);
      case 'h': return put(hex_set, false);
      case 'W': return put(word_set, true);
      case 'H': return put(hex_set, true);
      case 'S':
        if (!in_set) return put(space_set, true);
        break;
      case 'u': {
        const std::string_view digits = in_.substr(at_, 4);
        if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
          refuse("\\u without four digits");
        at_ += 4;
        return atom(fmt::format("\\x{{{}}}", digits));
      }
      case 'p':
      case 'P':
      case 'x':
      case 'k':
      case 'g':
        if (peek() == '{' || peek() == '<') {
          const std::size_t end = in_.find(peek() == '{' ? '}' : '>', at_);
          if (end == std::string_view::npos) refuse(fmt::format("\\{} without an end", c));
          const std::string_view name = in_.substr(at_, end + 1 - at_);
          at_ = end + 1;
          return atom(fmt::format("\\{}{}", c, name));
        }
        break;
      default: break;
    }
    atom(fmt::format("\\{}", c));
  }

  void set() {
    atom_ = out_.size();
    out_ += '[';
    ++at_;
    const std::size_t outside = atom_;
    if (peek() == '^') out_ += in_[at_++];
    for (bool first = true; peek() != ']' || first; first = false) {
      const char c = peek();
      if (at_ >= in_.size()) refuse("a '[' without its ']'");
      if (c == '\\') {
        escape(true);
      } else if (c == '[') {
        posix_set();
      } else if (c == '&' && peek(1) == '&') {
        refuse("'&&' between brackets");
      } else {
        out_ += in_[at_++];
      }
    }
    out_ += in_[at_++];
    atom_ = outside;
  }

  // [:alpha:] between brackets.
  void posix_set() {
    static constexpr std::pair<std::string_view, std::string_view> sets[] = {{"[:alpha:]", R"(\p{Alphabetic})"},
                                                                             {"[:alnum:]", R"(\p{Alphabetic}\p{Nd})"},
                                                                             {"[:upper:]", R"(\p{Uppercase})"},
                                                                             {"[:lower:]", R"(\p{Lowercase})"},
                                                                             {"[:digit:]", R"(\p{Nd})"},
                                                                             {"[:punct:]", R"(\p{P}\p{S})"},
                                                                             {"[:space:]", space_set},
                                                                             {"[:word:]", word_set},
                                                                             {"[:xdigit:]", hex_set}};
    for (const auto& [name, members] : sets) {
      if (!in_.substr(at_).starts_with(name)) continue;
      out_ += members;
      at_ += name.size();
      return;
    }
    refuse("a set of characters inside another");
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0, atom_ = 0;    // atom_: where in out_ begins what a quantifier would repeat
  std::vector<std::size_t> groups_;  // where the open groups begin in out_
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma) { return Translator(oniguruma).run(); }

std::string quoted_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\.+*?()|[]{}^$#&-~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

template <auto Free>
struct Freed {
  void operator()(auto* object) const { Free(object); }
};

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> limits;
};

Regex::Regex(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > longest_pattern)
    fail("regular expression", "a pattern of {} bytes, at most {} are taken", pattern.size(), longest_pattern);
  const std::string translated = to_pcre2(pattern);
  int error = 0;
  PCRE2_SIZE place = 0;
  const std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> dialect(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(dialect.get(), PCRE2_NEWLINE_LF);
  // Ruby's ^ and $ are those of lines.
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place, dialect.get()));
  if (compiled_->code == nullptr) fail("regular expression", "'{}': {} at byte {}", translated.substr(0, 200), message(error), place);
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);  // where it cannot, matching is interpreted
  compiled_->limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->limits.get(), 1'000'000);
  pcre2_set_heap_limit(compiled_->limits.get(), 256 * 1024);  // in KiB
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::vector<PatternMatch> Regex::find_all(std::string_view text) const {
  std::vector<PatternMatch> parts;
  const std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t covered = 0, from = 0;
  bool matched = false;  // something ended at `covered`
  while (from <= text.size() && !text.empty()) {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(compiled_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(),
                         compiled_->limits.get());
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) fail("regular expression", "cannot be matched against this text of {} bytes: {}", text.size(), message(result));
    const PCRE2_SIZE* place = pcre2_get_ovector_pointer(data.get());
    const std::size_t begin = std::max(place[0], covered), end = place[1];  // \K can move the beginning
    if (end < begin) fail("regular expression", "a match ends before it begins");
    if (begin == end && matched && end == covered) {  // nothing, right behind a match: look one character further
      from += from < text.size() ? character_size(text[from]) : 1;
      continue;
    }
    if (covered < begin) parts.push_back({covered, begin, false});
    parts.push_back({begin, end, true});
    covered = from = end;
    matched = true;
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
  return parts;
}

}  // namespace transformer
