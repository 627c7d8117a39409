#pragma once
// Dropouts and other probabilities that become keys of config.json.

#include <nlohmann/json.hpp>
#include <string_view>

#include "transformer/core/setting_error.h"
#include "transformer/io/config.h"

namespace transformer {

// The value as config.json has it. Error of `where`, the task, unless it is in [0, 1).
inline nlohmann::json probability(std::string_view where, const char* name, float value) {
  if (!(value >= 0.0F && value < 1.0F)) wrong_setting(where, name, "is {}: expected a value in [0, 1)", value);
  return detail::write_value(value, name);
}

}  // namespace transformer
