#pragma once
// JSON files.

#include <filesystem>
#include <nlohmann/json.hpp>

namespace transformer {

// Error names the file and, where the text is not JSON, line and column.
nlohmann::json read_json(const std::filesystem::path& path);

// Written under a temporary name, synced and renamed: a reader sees the old file or the new one, never half of it.
void write_json(const std::filesystem::path& path, const nlohmann::json& value);

}  // namespace transformer
