#pragma once
// Small grey images that a model can learn in a moment: a bright bar, across or upright, on noise; and the files that hold images.

#include <cstdint>
#include <string>
#include <vector>

#include "transformer/core/random.h"

namespace transformer::test {

struct ToyImages {
  static constexpr std::int64_t side = 8;
  std::vector<std::uint8_t> pixels;  // [count, side, side]
  std::vector<std::int64_t> labels;  // 0: across, 1: upright

  explicit ToyImages(std::int64_t count, std::uint64_t seed = 1) {
    const RandomStream random{seed, 0, 0};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(i)) % side);
      labels.push_back(i % 2);
      for (std::int64_t y = 0; y < side; ++y)
        for (std::int64_t x = 0; x < side; ++x) {
          const std::uint32_t noise = random.bits(static_cast<std::uint64_t>(1'000'000 + (i * side + y) * side + x)) % 90;
          pixels.push_back(static_cast<std::uint8_t>(noise + ((i % 2 == 0 ? y : x) == at ? 150 : 0)));
        }
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

// An IDX file of bytes.
inline std::string idx_file(const std::vector<std::int64_t>& sizes, const auto& values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::int64_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 0xFF);
  for (const auto value : values) out += static_cast<char>(value);
  return out;
}

// The four files of a folder like MNIST's, through `write(name, content)`.
void write_idx(auto&& write, const ToyImages& training, const ToyImages& test) {
  for (const auto& [images, name] : {std::pair{&training, "train"}, std::pair{&test, "t10k"}}) {
    write(std::string(name) + "-images-idx3-ubyte", idx_file({images->count(), ToyImages::side, ToyImages::side}, images->pixels));
    write(std::string(name) + "-labels-idx1-ubyte", idx_file({images->count()}, images->labels));
  }
}

}  // namespace transformer::test
