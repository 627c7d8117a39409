#pragma once
// The order of an epoch: a pure function of the seed and the epoch, so that a resumed run sees what the uninterrupted one would.

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "transformer/core/random.h"

namespace transformer {

// Fisher and Yates. Written out because std::shuffle may differ between libraries.
template <class T>
void shuffle(std::vector<T>& items, const RandomStream& random) {
  for (std::uint64_t i = items.size(); i > 1; --i) {
    // A number in [0, i): the top half of a 96-bit product, its bias below 2⁻³² even for 2³² items.
    const std::uint64_t high = random.bits(2 * i), low = random.bits(2 * i + 1);
    const auto other = static_cast<std::size_t>((high * i + (low * i >> 32)) >> 32);
    std::swap(items[i - 1], items[other]);
  }
}

// Random numbers of the data of an epoch; `use` tells several uses apart. The updates of training draw from streams of the same
// seed, whose ops are counted from 0 and never come up here.
inline RandomStream epoch_stream(std::uint64_t seed, std::int64_t epoch, std::uint32_t use = 0) {
  return {seed, static_cast<std::uint32_t>(epoch), 0xFFFFFFFFU - use};
}

// 0 … count - 1 in the order of an epoch.
inline std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  shuffle(order, epoch_stream(seed, epoch));
  return order;
}

}  // namespace transformer
