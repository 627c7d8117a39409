#pragma once
// Regular expressions of tokenizer files. They are written for Oniguruma (Ruby's dialect) and run here by PCRE2, whose dialect
// is so close that a few words need other words; what cannot be said is refused.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

// A part of a text: what a pattern found, or what stands between.
struct PatternMatch {
  std::size_t begin = 0, end = 0;
  bool found = false;
};

class Regex {
 public:
  // Error says what is wrong with the pattern, and where.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // The whole of text (valid UTF-8) as matches and what lies between them, in order. May be used by many threads. Error for
  // a pattern that needs more steps than any sensible one: the time is bounded.
  std::vector<PatternMatch> find_all(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// The pattern in PCRE2's words.
std::string to_pcre2(std::string_view oniguruma);
// A pattern that matches just this text.
std::string quoted_pattern(std::string_view text);

}  // namespace transformer
