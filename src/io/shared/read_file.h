#pragma once

#include <filesystem>
#include <string>

namespace transformer {

// All bytes of a file. Error names it and says why it cannot be read.
std::string read_file(const std::filesystem::path& path);

}  // namespace transformer
