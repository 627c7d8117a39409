#include "transformer/core/sequences.h"

#include <algorithm>

#include "transformer/core/error.h"

namespace transformer {

Sequences::Sequences(std::span<const std::int64_t> lengths) {
  Data data;
  data.offsets.reserve(lengths.size() + 1);
  data.offsets.push_back(0);
  for (std::int64_t n : lengths) {
    if (n < 0) fail("Sequences", "a length of {} was given, lengths must be 0 or more", n);
    data.offsets.push_back(data.offsets.back() + n);
    data.longest = std::max(data.longest, n);
  }
  data_ = std::make_shared<const Data>(std::move(data));
}

Sequences Sequences::uniform(std::int64_t count, std::int64_t length) {
  if (count < 0) fail("Sequences", "a count of {} was given, it must be 0 or more", count);
  return Sequences(std::vector<std::int64_t>(static_cast<std::size_t>(count), length));
}

}  // namespace transformer
