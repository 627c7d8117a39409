#pragma once
// LayerNorm and RMSNorm over the last dimension, and the residual sums in front of them.
//   layer_norm: y = (x - mean) / √(variance + eps) · weight + bias
//   rms_norm:   y = x / √(mean(x²) + eps) · weight + bias

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/core/types.h"

namespace transformer {

struct NormOptions {
  NormKind kind = NormKind::layer_norm;
  Tensor weight, bias;  // [d], float32 or the dtype of x; undefined: 1 and 0
  float eps = 1e-5F;
};

// x [..., d] → the same shape and dtype. Statistics are float32 whatever the dtype.
Tensor norm(Context& ctx, const Tensor& x, const NormOptions& options);
Tensor layer_norm(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, float eps = 1e-5F);
Tensor rms_norm(Context& ctx, const Tensor& x, const Tensor& weight, float eps = 1e-6F);

// sum = x + dropout(sub), normed = norm(sum), in one pass over memory. The whole of a post-norm residual
// connection, and the end of one pre-norm sublayer with the start of the next. x and sub are alike.
struct AddNorm {
  Tensor sum, normed;
};
AddNorm add_norm(Context& ctx, const Tensor& x, const Tensor& sub, const NormOptions& options, float dropout = 0.0F);

// x + dropout(sub). Like everywhere, dropout is active only when ctx.training(); 0 ≤ dropout < 1.
Tensor add_dropout(Context& ctx, const Tensor& x, const Tensor& sub, float dropout);

}  // namespace transformer
