#pragma once
// Products of matrices.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/core/types.h"

namespace transformer {

// y = dropout(activation(x · weightᵀ + bias))
//   x [..., in], weight [out, in], bias [out] or undefined → y [..., out] in the dtype of x.
// A float32 weight is used in the dtype of x; its gradient is float32. Dropout acts while ctx.training(), see
// ops/dropout.h; it is part of this op because after a relu backward needs neither the mask nor the undropped values.
Tensor linear(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none,
              float dropout = 0.0F);

// y with scale · x · weightᵀ added to its columns from `column` on: a correction of a product, or of one part of a fused one.
//   y [..., n], x [..., in], weight [out, in], column + out ≤ n → [..., n] in the dtype of x, which is y's too.
Tensor add_linear(Context& ctx, const Tensor& y, const Tensor& x, const Tensor& weight, float scale = 1.0F, std::int64_t column = 0);

// a [..., M, K] · b [..., K, N] → [..., M, N]. Leading dimensions broadcast. With transpose_a (transpose_b) the
// last two dimensions of a (b) are stored the other way round.
Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace transformer
