#pragma once
// Ragged batches in the device's memory.

#include "backend/cuda/kernels.h"

namespace transformer {

struct DeviceSequences {
  const std::int32_t *begins, *lengths;  // [count]
  const std::int32_t* order;             // [count]: the longest first
  const std::int32_t* rows;              // scattered: the row of token begins[i] + j; else null
  int count, total, longest;
};

// Copied at first use, then shared by all who hold these sequences, layer after layer.
inline DeviceSequences on_device(Context& ctx, const Sequences& sequences) {
  const auto* at = reinterpret_cast<const std::int32_t*>(sequences.on(ctx).raw());
  const std::int64_t n = sequences.count();
  return {at,
          at + n,
          at + 2 * n,
          sequences.rows().empty() ? nullptr : at + 3 * n,
          static_cast<int>(n),
          static_cast<int>(sequences.total()),
          static_cast<int>(sequences.longest())};
}

}  // namespace transformer
