#include "transformer/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "transformer/core/error.h"

namespace transformer {

float warmup_schedule(std::int64_t step, std::int64_t d_model, std::int64_t warmup) {
  return Schedule{.warmup = warmup, .d_model = d_model}(step);
}

float Schedule::operator()(std::int64_t step) const {
  if (step < 1) fail("schedule", "step is {}: the first one is 1", step);
  if (warmup < 0) fail("schedule", "warmup is {}: expected 0 or more", warmup);
  if (!(peak >= 0.0F)) fail("schedule", "peak is {}: expected 0 or more", peak);
  const auto at = static_cast<double>(step), rise = static_cast<double>(warmup);
  const double climb = step < warmup ? at / rise : 1.0;
  switch (kind) {
    case Kind::inverse_sqrt: {
      if (peak == 0.0F && d_model < 1) fail("schedule", "d_model is {}: expected 1 or more", d_model);
      const double start = std::max(rise, 1.0);  // without warm-up it falls from step 1
      const double top = peak > 0.0F ? peak : 1.0 / std::sqrt(static_cast<double>(d_model) * start);
      return static_cast<float>(step < warmup ? top * climb : top * std::sqrt(start / at));
    }
    case Kind::cosine: {
      if (total <= warmup) fail("schedule", "cosine needs total > warmup, got total {} and warmup {}", total, warmup);
      if (!(floor >= 0.0F && floor <= peak)) fail("schedule", "floor is {}: expected a value from 0 to the peak {}", floor, peak);
      if (step < warmup) return static_cast<float>(peak * climb);
      const double progress = std::min(1.0, (at - rise) / static_cast<double>(total - warmup));
      return static_cast<float>(floor + 0.5 * (peak - floor) * (1.0 + std::cos(std::numbers::pi * progress)));
    }
    case Kind::constant: return static_cast<float>(peak * climb);
  }
  fail("schedule", "unknown kind {}", static_cast<int>(kind));
}

}  // namespace transformer
