#pragma once
// Vectors looked up by id.

#include <cstdint>
#include <optional>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// y = scale · table[ids]
//   ids [...] int32 or int64, each in [0, rows); table [rows, d] → y [..., d] in `dtype`, by default the context's precision.
// The gradient of the table is summed in float32, always in the same order. The id `padding`, if there is one, gives its row no
// gradient, as torch.nn.Embedding's padding_idx.
Tensor embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale = 1.0F, std::optional<DType> dtype = {},
                 std::int64_t padding = -1);

}  // namespace transformer
