#pragma once
// TOML 1.0 (https://toml.io), the format of configuration files that people write, as JSON values:
//
//   # small.toml                           {"max_tokens": 4096, "optimizer": {"betas": [0.9, 0.98], "name": "adam"}}
//   max_tokens = 4_096
//   [optimizer]
//   name = "adam"
//   betas = [0.9, 0.98]
//
// What JSON cannot hold is refused: dates and times, inf and nan. So are nesting deeper than 100 and more than 16 MiB.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace transformer {

// An object. Error has the name (of the file, say), line and column, what was found and what was expected.
nlohmann::json parse_toml(std::string_view text, std::string_view name);
nlohmann::json read_toml(const std::filesystem::path& path);

// A document that parse_toml reads as the same value. The value must be an object; a member that is null is left out, for
// TOML has no word for it, and a null in a list is an Error, as is a number that is not finite or above 2⁶³-1.
std::string to_toml(const nlohmann::json& value);

}  // namespace transformer
