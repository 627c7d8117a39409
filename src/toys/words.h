#pragma once
// What the made-up languages share: numbers drawn for one text after the other, and texts that are all different.

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "transformer/core/error.h"
#include "transformer/core/random.h"

namespace transformer::toy {

class Draws {
 public:
  Draws(std::uint32_t language, std::int64_t text) : stream_{0x746F79, static_cast<std::uint32_t>(text), language} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((std::uint64_t{stream_.bits(at_++)} * n) >> 32); }
  std::string_view one_of(const auto& words) { return words[below(words.size())]; }

 private:
  RandomStream stream_;
  std::uint64_t at_ = 0;
};

using Words = std::vector<std::string_view>;

inline std::string joined(const Words& list) {
  std::string out;
  for (const std::string_view word : list) out.append(out.empty() ? "" : " ").append(word);
  return out;
}

inline void check_count(std::int64_t count) {
  constexpr std::int64_t most_texts = 1'000'000;
  if (count < 0 || count > most_texts) fail("toy language", "{} texts: expected up to {}", count, most_texts);
}

}  // namespace transformer::toy
