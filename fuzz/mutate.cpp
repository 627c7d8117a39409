#include "mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace transformer::fuzz {
namespace {

constexpr std::size_t most_seeds = 2000, largest_learned = 16'384;

// Numbers and values that programs stumble over.
constexpr std::array numbers{"0",
                             "-1",
                             "1",
                             "2",
                             "255",
                             "65536",
                             "2147483647",
                             "-2147483648",
                             "4294967296",
                             "268435456",
                             "9007199254740993",
                             "9223372036854775807",
                             "-9223372036854775808",
                             "18446744073709551615",
                             "18446744073709551616",
                             "0.5",
                             "-0.0",
                             "1e-300",
                             "1e308",
                             "-1e308",
                             "1e999",
                             "3.4e39",
                             "10000",
                             "100000000"};
constexpr std::array values{"null",
                            "true",
                            "false",
                            "\"\"",
                            "[]",
                            "{}",
                            "[[]]",
                            "{\"\":null}",
                            "\"\\u0000\"",
                            "\"a\"",
                            "\"\\ud83d\\ude00\"",
                            "[0,0]",
                            "\"(a+)+$\"",
                            "\"..\"",
                            "\"\xEF\xBF\xBF\"",
                            "inf",
                            "nan",
                            "[null]"};
constexpr std::string_view punctuation = "{}[](),:\"'\\%#|.-+*=<> \n\t";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+'; }
bool is_number(std::string_view s) {
  const std::size_t at = s.starts_with('-') ? 1 : 0;
  return s.size() > at && std::isdigit(static_cast<unsigned char>(s[at])) != 0;
}

// What a message says whatever the names and numbers in it: its words outside of quotes. All that is not JSON is one kind.
std::string kind_of(std::string_view message) {
  std::string kind;
  bool quoted = false;
  for (const char c : message.substr(0, std::min<std::size_t>(message.find("not JSON"), 300))) {
    if (c == '\'' || c == '"') quoted = !quoted;
    else if (!quoted && (std::islower(static_cast<unsigned char>(c)) != 0 || c == ' ')) kind += c;
  }
  return kind;
}

}  // namespace

std::vector<Span> values_of(std::string_view text) {
  std::vector<Span> found;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      if (end < text.size() && text[end] == c) {
        found.push_back({i, end + 1});
        i = end;
      }
    } else if (c == '[' || c == '{' || c == '(') {
      open.push_back(i);
    } else if ((c == ']' || c == '}' || c == ')') && !open.empty()) {
      found.push_back({open.back(), i + 1});
      open.pop_back();
    } else if (is_word(c)) {
      const std::size_t begin = i;
      while (i + 1 < text.size() && is_word(text[i + 1])) ++i;
      found.push_back({begin, i + 1});
    }
  }
  return found;
}

Mutator::Mutator(std::vector<std::string> seeds, Format format, std::uint64_t seed)
    : seeds_(std::move(seeds)), format_(format), random_(seed) {
  std::erase_if(seeds_, [](const std::string& s) { return s.size() > largest; });
  if (seeds_.empty()) seeds_.emplace_back();
  given_ = seeds_.size();
  std::set<std::string> seen;
  for (const std::string& s : seeds_)
    for (const Span& v : values_of(s))
      if (v.size() < 200 && seen.insert(s.substr(v.begin, v.size())).second) words_.push_back(s.substr(v.begin, v.size()));
}

void Mutator::learn(const std::string& input, std::string_view outcome) {
  if (seeds_.size() >= most_seeds || input.size() > largest_learned) return;
  if (outcomes_.insert(kind_of(outcome)).second) seeds_.push_back(input);
}

Span Mutator::any_range(const std::string& s) {
  if (s.empty()) return {};
  const std::size_t begin = below(s.size());
  return {begin, std::min(s.size(), begin + 1 + below(once_in(4) ? s.size() : 16))};
}

std::string Mutator::any_text() {
  switch (below(4)) {
    case 0: return numbers[below(numbers.size())];
    case 1: return values[below(values.size())];
    case 2: return std::string(1, punctuation[below(punctuation.size())]);
    default: return words_.empty() ? "x" : words_[below(words_.size())];
  }
}

void Mutator::change_bytes(std::string& s) {
  const Span r = any_range(s);
  const auto at = s.begin() + static_cast<std::ptrdiff_t>(r.begin);
  switch (below(8)) {
    case 0:  // a bit
      if (!s.empty()) s[r.begin] = static_cast<char>(s[r.begin] ^ (1 << below(8)));
      break;
    case 1:  // a byte
      if (!s.empty())
        s[r.begin] = static_cast<char>(once_in(2) ? below(256) : static_cast<std::size_t>(std::array{0, 1, 0x7F, 0x80, 0xFF}[below(5)]));
      break;
    case 2:  // new bytes
      for (std::size_t n = 1 + below(8); n > 0; --n)
        s.insert(s.begin() + static_cast<std::ptrdiff_t>(r.begin), static_cast<char>(below(256)));
      break;
    case 3: s.erase(r.begin, r.size()); break;
    case 4: s.insert(at, s.begin() + static_cast<std::ptrdiff_t>(r.begin), s.begin() + static_cast<std::ptrdiff_t>(r.end)); break;
    case 5: s.resize(r.begin); break;
    case 6: {  // the beginning of one, the end of another
      const std::string& other = any_seed();
      s = s.substr(0, r.begin) + (other.empty() ? other : other.substr(below(other.size())));
      break;
    }
    default: {  // a number of 2, 4 or 8 bytes
      const std::size_t bytes = std::size_t{2} << below(3);
      const std::uint64_t value = once_in(2) ? random_()
                                             : std::array<std::uint64_t, 5>{0, 1, 0xFFFF, 0x7FFFFFFF, ~std::uint64_t{0}}[below(5)];
      if (s.size() >= bytes) std::memcpy(s.data() + below(s.size() - bytes + 1), &value, bytes);
    }
  }
}

void Mutator::change_text(std::string& s) {
  const std::vector<Span> spans = values_of(s);
  if (spans.empty()) return void(s.insert(below(s.size() + 1), any_text()));
  Span v = spans[below(spans.size())];
  switch (below(12)) {
    case 0:  // a number by another one
    case 1:
      for (int tries = 0; tries < 20 && !is_number(std::string_view(s).substr(v.begin, v.size())); ++tries) v = spans[below(spans.size())];
      s.replace(v.begin, v.size(), numbers[below(numbers.size())]);
      break;
    case 2: s.replace(v.begin, v.size(), values[below(values.size())]); break;
    case 3:
    case 4: s.replace(v.begin, v.size(), any_text()); break;
    case 5: {  // two values change places
      Span w = spans[below(spans.size())];
      if (w.begin < v.begin) std::swap(v, w);
      if (w.begin < v.end) break;
      const std::string first = s.substr(v.begin, v.size()), second = s.substr(w.begin, w.size());
      s.replace(w.begin, w.size(), first);
      s.replace(v.begin, v.size(), second);
      break;
    }
    case 6: {  // away with it and the comma behind it
      const std::size_t next = s.find_first_not_of(" \n\r\t", v.end);
      s.erase(v.begin, (next != std::string::npos && (s[next] == ',' || s[next] == ':') ? next + 1 : v.end) - v.begin);
      break;
    }
    case 7: {  // once more, or many times
      const std::string again = s.substr(v.begin, v.size()) + (once_in(2) ? "," : "");
      const std::size_t room = largest / (4 * again.size());
      std::string all;
      for (std::size_t n = once_in(20) ? below(room + 1) : 1 + below(4); n > 0; --n) all += again;
      s.insert(v.begin, all);
      break;
    }
    case 8: {  // a value of another seed
      const std::string& other = any_seed();
      const std::vector<Span> theirs = values_of(other);
      if (theirs.empty()) break;
      const Span w = theirs[below(theirs.size())];
      s.replace(v.begin, v.size(), other, w.begin, w.size());
      break;
    }
    case 9: {  // deep inside
      const std::size_t depth = once_in(20) ? below(50'000) : 1 + below(300);
      const bool list = once_in(2);
      std::string before, after;
      for (std::size_t i = 0; i < depth; ++i) before += list ? "[" : "{\"a\":", after += list ? "]" : "}";
      s.insert(v.end, after);
      s.insert(v.begin, before);
      break;
    }
    case 10: s.insert(once_in(2) ? v.begin : v.end, any_text()); break;
    default: s[v.begin + below(v.size())] = punctuation[below(punctuation.size())];
  }
}

void Mutator::change(std::string& s) {
  if (format_ == Format::binary || once_in(10)) change_bytes(s);
  else change_text(s);
}

std::string Mutator::next() {
  // Half of them from the seeds that were given: those learned are more, and many of them are far from anything real.
  std::string input = seeds_[below(once_in(2) ? given_ : seeds_.size())];
  std::size_t rounds = 1;
  while (rounds < 12 && once_in(2)) ++rounds;

  // The header of safetensors is text; mostly its length is told as it is.
  std::uint64_t length = 0;
  if (format_ == Format::safetensors && input.size() >= sizeof(length) && !once_in(10)) {
    std::memcpy(&length, input.data(), sizeof(length));
    const std::size_t end = sizeof(length) + std::min<std::uint64_t>(length, input.size() - sizeof(length));
    std::string header = input.substr(sizeof(length), end - sizeof(length)), data = input.substr(end);
    for (; rounds > 0; --rounds) change(header);
    if (once_in(10)) change_bytes(data);
    if (!once_in(20)) length = header.size();
    input.assign(reinterpret_cast<const char*>(&length), sizeof(length));
    input += header + data;
  } else {
    for (; rounds > 0; --rounds) format_ == Format::safetensors ? change_bytes(input) : change(input);
  }
  if (input.size() > largest) input.resize(largest);
  return input;
}

}  // namespace transformer::fuzz
