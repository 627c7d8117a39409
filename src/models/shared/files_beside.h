#pragma once
// What stands in a model's folder beside config.json and the weights and belongs to it.

#include <filesystem>
#include <string>
#include <vector>

namespace transformer {

// Names of files of its tokenizer, of generation, of preprocessing, of how it is used for vectors of sentences or for a series.
std::vector<std::string> files_beside(const std::filesystem::path& folder);

}  // namespace transformer
