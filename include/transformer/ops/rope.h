#pragma once
// Rotary position embedding (RoPE): queries and keys are turned by an angle that grows with the position, so that
// their products depend on the distance between them alone.

#include <cstdint>
#include <span>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/core/types.h"

namespace transformer {

// Cosines and sines of position · base^(-2i / rotary_dim): float32 [positions, rotary_dim / 2].
struct RopeTable {
  Tensor cos, sin;
};
RopeTable rope_table(Context& ctx, std::int64_t positions, std::int64_t rotary_dim, float base = 10000.0F);
// The same of position · frequency for other frequencies, one per pair; all values times `scale`.
RopeTable rope_table(Context& ctx, std::int64_t positions, std::span<const double> frequencies, double scale = 1.0);

struct RopeOptions {
  std::int64_t heads = 1;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // the first dimensions of each head that are turned, an even number; 0: all
  RopePairs pairs = RopePairs::half_split;
};

// x [..., cols] with one token per row, position int32 [tokens] its row of the table. The first heads · head_dim
// columns are turned, the rest (the values of a fused Q | K | V) are copied. The gradient is turned back.
Tensor rope(Context& ctx, const Tensor& x, const Tensor& position, const RopeTable& table, const RopeOptions& options);

}  // namespace transformer
