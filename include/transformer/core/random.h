#pragma once
// Counter-based random numbers (Philox 4x32-10): every number is a pure function of
// (seed, step, op, element). Dropout masks are recomputed in backward instead of stored, every device
// draws the same ones, and a resumed run draws what the uninterrupted run would have drawn.

#include <array>
#include <cstdint>

namespace transformer {

// One block of Philox 4x32-10: four words for a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The address of one op's numbers. Element e of the stream is word (e / 16) % 4 of the block with
// counter ((e / 64) · 16 + e % 16 as 64 bits, op, step) and key seed: runs of 16 neighbouring elements
// use 16 neighbouring blocks, which is what vector units and GPU warps want.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t op = 0;
  std::uint32_t bits(std::uint64_t element) const;
  float uniform(std::uint64_t element) const { return static_cast<float>(bits(element) >> 8) * 0x1p-24F; }  // [0, 1)
};

// Hands out streams. begin_step(n, k) makes the k-th micro-batch of the n-th step draw the same numbers whatever ran before, and
// whichever process computes it.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0) : seed_(seed) {}
  void reseed(std::uint64_t seed) { *this = Random(seed); }
  void begin_step(std::uint32_t step, std::uint32_t micro_batch = 0) { step_ = step, op_ = micro_batch << 16; }
  RandomStream next() { return {seed_, step_, op_++}; }
  std::uint64_t seed() const { return seed_; }
  std::uint32_t step() const { return step_; }

 private:
  std::uint64_t seed_;
  std::uint32_t step_ = 0, op_ = 0;
};

}  // namespace transformer
