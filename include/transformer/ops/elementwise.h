#pragma once
// Arithmetic, element by element. Two operands broadcast to one shape: aligned at the right, sizes equal or 1.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// a and b of one dtype.
Tensor add(Context& ctx, const Tensor& a, const Tensor& b);
Tensor sub(Context& ctx, const Tensor& a, const Tensor& b);
Tensor mul(Context& ctx, const Tensor& a, const Tensor& b);
Tensor div(Context& ctx, const Tensor& a, const Tensor& b);
Tensor maximum(Context& ctx, const Tensor& a, const Tensor& b);  // where a = b the gradient goes to a
Tensor minimum(Context& ctx, const Tensor& a, const Tensor& b);

Tensor scale(Context& ctx, const Tensor& x, float factor);  // factor · x

Tensor exp(Context& ctx, const Tensor& x);
Tensor log(Context& ctx, const Tensor& x);
Tensor sqrt(Context& ctx, const Tensor& x);
Tensor rsqrt(Context& ctx, const Tensor& x);  // 1/√x
Tensor tanh(Context& ctx, const Tensor& x);
Tensor sigmoid(Context& ctx, const Tensor& x);  // 1/(1 + e⁻ˣ)
Tensor square(Context& ctx, const Tensor& x);
Tensor abs(Context& ctx, const Tensor& x);  // gradient 0 at 0
Tensor neg(Context& ctx, const Tensor& x);
Tensor sin(Context& ctx, const Tensor& x);
Tensor cos(Context& ctx, const Tensor& x);

}  // namespace transformer
