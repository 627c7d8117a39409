#pragma once
// Numbers that are not finite are no answer: whoever gives a model's outputs to a user says so instead.

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "transformer/core/error.h"

namespace transformer {

inline void expect_finite(std::string_view where, std::span<const float> outputs) {
  if (!std::all_of(outputs.begin(), outputs.end(), [](float v) { return std::isfinite(v); }))
    fail(where, "the model's outputs are not finite: are its weights?");
}

}  // namespace transformer
