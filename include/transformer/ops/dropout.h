#pragma once

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Sets elements to zero with probability p in [0, 1) and scales the others by 1/(1-p) while the context is
// training; otherwise returns x. The mask is not stored: backward draws it again.
Tensor dropout(Context& ctx, const Tensor& x, float p);

// The same for all tokens of a sequence together (stochastic depth: a sublayer is left out of a sample). x [tokens, d]
Tensor drop_sequences(Context& ctx, const Tensor& x, const Sequences& sequences, float p);

}  // namespace transformer
