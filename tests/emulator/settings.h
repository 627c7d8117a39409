#pragma once
// TRANSFORMER_EMULATOR_SEED=N: blocks and threads run in an order by chance, and so does what may happen sooner or later. Without it
// threads run one after the other and everything happens as late as it may.

#include <cstdint>
#include <cstdlib>

namespace emulator {

class Chance {
 public:
  bool wanted() const { return state_ != 0; }
  // 0 … n - 1.
  std::uint32_t below(std::uint32_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 16) % n);
  }
  // One time in n, of runs with a seed.
  bool one_in(std::uint32_t n) { return wanted() && below(n) == 0; }

 private:
  static std::uint64_t seed() {
    const char* setting = std::getenv("TRANSFORMER_EMULATOR_SEED");
    const std::uint64_t n = setting != nullptr ? std::strtoull(setting, nullptr, 10) : 0;
    return n == 0 ? 0 : (n + 1) * 0x9E3779B97F4A7C15U;
  }
  std::uint64_t state_ = seed();
};
inline Chance chance;  // of the thread that runs the card's work

}  // namespace emulator
