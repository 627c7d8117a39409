#include "train/shares.h"

#include <numeric>

namespace transformer {

// A part ends with the sample whose middle lies before its share of the sum.
SampleRange range_of(const Share& share, std::span<const std::int64_t> sizes) {
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), count = std::ssize(sizes);
  const auto place = [&](std::int64_t part) {
    if (part == share.parts) return count;
    std::int64_t i = 0, before = 0;
    while (i < count && (2 * before + sizes[static_cast<std::size_t>(i)]) * share.parts <= 2 * total * part)
      before += sizes[static_cast<std::size_t>(i++)];
    return i;
  };
  return {share.part == 0 ? 0 : place(share.part), place(share.part + 1)};
}

SampleRange range_of(const Share& share, std::int64_t samples) {
  return {samples * share.part / share.parts, samples * (share.part + 1) / share.parts};
}

}  // namespace transformer
