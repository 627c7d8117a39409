#pragma once
// Vectors looked up by id.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// y = scale · table[ids]
//   ids [...] int32 or int64, each in [0, rows); table [rows, d] → y [..., d] in the context's precision.
// The gradient of the table is summed in float32, always in the same order.
Tensor embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale = 1.0F);

}  // namespace transformer
