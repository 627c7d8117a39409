#include "core/shared/top_k.h"

#include <algorithm>
#include <limits>

namespace transformer {

void top_k(std::span<const float> values, std::size_t k, std::vector<Scored>& best) {
  best.clear();
  if (k == 0) return;
  float threshold = -std::numeric_limits<float>::infinity();  // what a value must exceed
  constexpr std::size_t block = 64;
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(values.size(), begin + block);
    // Most blocks hold nothing of interest; this test becomes a handful of vector instructions.
    int any = 0;
    for (std::size_t i = begin; i < end; ++i) any |= static_cast<int>(values[i] > threshold);
    if (any == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(values[i] > threshold)) continue;
      if (best.size() == k) best.pop_back();
      const auto at = std::upper_bound(best.begin(), best.end(), values[i], [](float v, const Scored& s) { return v > s.value; });
      best.insert(at, {values[i], static_cast<std::int32_t>(i)});
      if (best.size() == k) threshold = best.back().value;
    }
  }
}

}  // namespace transformer
