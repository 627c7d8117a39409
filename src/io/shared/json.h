#pragma once
// JSON files.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace transformer {

// The value that a text is. Error has `where` (the name of the file, say) and, where the text is not JSON, line and column. Nesting
// deeper than 256 is refused. `look` is asked about each part as it is read, as in nlohmann::json::parse.
nlohmann::json parse_json(std::string_view text, const std::string& where, const nlohmann::json::parser_callback_t& look = nullptr);
nlohmann::json read_json(const std::filesystem::path& path);

// Written under a temporary name, synced and renamed: a reader sees the old file or the new one, never half of it.
void write_json(const std::filesystem::path& path, const nlohmann::json& value);

}  // namespace transformer
