#pragma once

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Sets elements to zero with probability p in [0, 1) and scales the others by 1/(1-p) while the context is
// training; otherwise returns x. The mask is not stored: backward draws it again.
Tensor dropout(Context& ctx, const Tensor& x, float p);

}  // namespace transformer
