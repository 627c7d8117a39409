#pragma once
// Learning rates as functions of the step, which counts from 1.

#include <cstdint>

namespace transformer {

// "Attention Is All You Need": d_model^-0.5 · min(step^-0.5, step · warmup^-1.5); its peak is at step = warmup.
float warmup_schedule(std::int64_t step, std::int64_t d_model, std::int64_t warmup = 4000);

// Every kind rises linearly over the first `warmup` steps, from peak/warmup to peak, and then
//   inverse_sqrt  falls as peak·√(warmup/step); with peak = 0 it is warmup_schedule(step, d_model, warmup),
//   cosine        falls along half a cosine from peak to floor, reached at step `total`, and stays there,
//   constant      stays at peak.
struct Schedule {
  enum class Kind : std::uint8_t { inverse_sqrt, cosine, constant };
  Kind kind = Kind::inverse_sqrt;
  float peak = 0.0F;
  std::int64_t warmup = 4000;  // 0: none
  std::int64_t total = 0;      // cosine
  float floor = 0.0F;          // cosine
  std::int64_t d_model = 512;  // inverse_sqrt with peak = 0

  float operator()(std::int64_t step) const;
};

}  // namespace transformer
