#pragma once
// Tensors of random numbers, drawn from the context's random state.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

void fill_uniform(Context& ctx, Tensor& t, float low, float high);  // float32, in [low, high)
Tensor random_uniform(Context& ctx, const Shape& shape, float low = 0.0F, float high = 1.0F);
Tensor random_normal(Context& ctx, const Shape& shape, float mean = 0.0F, float deviation = 1.0F);

}  // namespace transformer
