#pragma once
// Activations, and the gated ones of feed-forward layers.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/core/types.h"

namespace transformer {

Tensor activate(Context& ctx, Activation kind, const Tensor& x);  // none returns x
Tensor relu(Context& ctx, const Tensor& x);                       // max(x, 0); gradient 0 at 0
Tensor gelu(Context& ctx, const Tensor& x);                       // x·Φ(x), exact
Tensor gelu_tanh(Context& ctx, const Tensor& x);                  // x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
Tensor silu(Context& ctx, const Tensor& x);                       // x/(1 + e⁻ˣ)

// x [..., 2·h] = (gate | up) → activation(gate) · up [..., h]
Tensor gated(Context& ctx, Activation kind, const Tensor& x);

}  // namespace transformer
