#pragma once

#include <string_view>

namespace transformer {

// Whether a line has nothing to read.
inline bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace transformer
