#pragma once
// The probabilities of one row of logits.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace transformer {

inline constexpr float never = -std::numeric_limits<float>::infinity();  // the logit of a token that must not come

struct RowSoftmax {
  float largest = never;
  double sum = 0.0;  // Σ exp(logit - largest)

  explicit RowSoftmax(std::span<const float> logits) {
    for (const float v : logits) largest = v > largest ? v : largest;
    // Most logits of a row that was cut are -inf; their exp is not computed.
    for (const float v : logits)
      if (v > never) sum += static_cast<double>(std::exp(v - largest));
  }
  double probability(float logit) const { return static_cast<double>(std::exp(logit - largest)) / sum; }
  double log_sum() const { return static_cast<double>(largest) + std::log(sum); }
};

// The token at u ∈ [0, 1) of the row's distribution, in the order of ids; -1 when no token has a probability.
std::int32_t draw(std::span<const float> logits, double u);

}  // namespace transformer
