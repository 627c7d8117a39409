#pragma once
// The largest values of a long row.

#include <cstdint>
#include <span>
#include <vector>

namespace transformer {

struct Scored {
  float value;
  std::int32_t id;
};

// The k largest of values, largest first, of equal ones the lower index first. NaN and -inf are never among them, so there
// may be fewer.
void top_k(std::span<const float> values, std::size_t k, std::vector<Scored>& best);

}  // namespace transformer
