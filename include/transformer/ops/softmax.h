#pragma once
// Softmax over the last dimension, computed in float32 and safe for any finite values.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// y = exp(x - max) / Σ exp(x - max). -inf masks an element: it gets 0. A row that is -inf throughout has nothing
// to share out and gives all zeros.
Tensor softmax(Context& ctx, const Tensor& x);

// y = x - log Σ exp(x); a row that is -inf throughout stays -inf.
Tensor log_softmax(Context& ctx, const Tensor& x);

}  // namespace transformer
