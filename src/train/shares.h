#pragma once
// The samples of a batch, cut into parts.

#include <cstdint>
#include <span>
#include <vector>

#include "transformer/train/task.h"

namespace transformer {

// Samples begin … end of a part: neighbours, so many that the parts have about the same sum of sizes, such as tokens.
struct SampleRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
SampleRange range_of(const Share& share, std::span<const std::int64_t> sizes);
SampleRange range_of(const Share& share, std::int64_t samples);  // of equal sizes

// The part's samples.
template <class Size>
std::vector<std::int64_t> part_of(const std::vector<std::int64_t>& samples, const Share& share, Size&& size) {
  if (share.parts == 1) return samples;
  std::vector<std::int64_t> sizes;
  for (const std::int64_t i : samples) sizes.push_back(size(i));
  const SampleRange range = range_of(share, sizes);
  return {samples.begin() + range.begin, samples.begin() + range.end};
}

}  // namespace transformer
