#pragma once
// What can be wrong with the sizes that a user gives a model, in the words of the settings.

#include <cstdint>
#include <string_view>

#include "transformer/core/setting_error.h"

namespace transformer {

inline void check_at_least(std::string_view where, std::string_view key, std::int64_t value, std::int64_t least) {
  if (value < least) wrong_setting(where, key, "is {}: expected {} or more", value, least);
}

// The width is shared evenly by the heads. rotary: pairs of a head's numbers are turned, so that their count is even.
inline void check_width(std::string_view where, std::int64_t d_model, std::int64_t num_heads, bool rotary = false) {
  check_at_least(where, "d_model", d_model, 1);
  check_at_least(where, "num_heads", num_heads, 1);
  if (d_model % num_heads != 0) wrong_setting(where, "d_model", "is {}: expected a multiple of num_heads, {}", d_model, num_heads);
  if (rotary && d_model / num_heads % 2 != 0)
    wrong_setting(where, "d_model", "is {}: {} heads of {} cannot have rotary positions, which turn pairs; expected an even number each",
                  d_model, num_heads, d_model / num_heads);
}

}  // namespace transformer
