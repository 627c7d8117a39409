#pragma once
// TRANSFORMER_EMULATOR_SEED=N: blocks and threads run in an order by chance, and so does what may happen sooner or later. Without it
// threads run one after the other and everything happens as late as it may.

#include <cstdint>
#include <cstdlib>

namespace emulator {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed == 0 ? 0 : (seed + 1) * 0x9E3779B97F4A7C15U) {}
  static Chance of_environment() {
    const char* setting = std::getenv("TRANSFORMER_EMULATOR_SEED");
    return Chance(setting != nullptr ? std::strtoull(setting, nullptr, 10) : 0);
  }
  bool wanted() const { return state_ != 0; }
  // 0 … n - 1.
  std::uint32_t below(std::uint32_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 16) % n);
  }
  // One time in n, of runs with a seed.
  bool one_in(std::uint32_t n) { return wanted() && below(n) == 0; }

 private:
  std::uint64_t state_;
};
inline Chance chance = Chance::of_environment();  // of the thread that runs the card's work

}  // namespace emulator
