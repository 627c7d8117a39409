#pragma once
// Dropouts and other probabilities that become keys of config.json.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/core/setting_error.h"
#include "transformer/io/config.h"

namespace transformer {

// The value as config.json has it. Error of `where`, the task, unless it is in [0, 1).
inline nlohmann::json probability(std::string_view where, const char* name, float value) {
  if (!(value >= 0.0F && value < 1.0F)) wrong_setting(where, name, "is {}: expected a value in [0, 1)", value);
  return detail::write_value(value, name);
}

// Sets these keys of a config.json to a dropout, where one is given.
inline void set_dropout(nlohmann::json& config, std::string_view where, const char* name, const std::optional<float>& value,
                        const std::vector<std::string>& keys) {
  if (!value) return;
  for (const std::string& key : keys) config[key] = probability(where, name, *value);
}

}  // namespace transformer
