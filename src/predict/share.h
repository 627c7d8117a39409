#pragma once
// A part of a whole as a number; 0 of nothing.

#include <cstdint>

namespace transformer {

inline double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace transformer
