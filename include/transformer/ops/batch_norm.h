#pragma once
// BatchNorm: every column of x is normed over all rows, so that a feature has mean 0 and variance 1 in the batch.
//   y = (x - mean) / √(variance + eps) · weight + bias,   mean, variance: one of each for every feature

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

struct BatchNormOptions {
  Tensor weight = {}, bias = {};  // [d], float32 or the dtype of x; undefined: 1 and 0
  // float32 [d]. While ctx.training() the statistics are the batch's own, and these two move towards them in place:
  // running ← (1 - momentum)·running + momentum·(mean, variance·n/(n - 1)). Otherwise they are the statistics.
  Tensor running_mean = {}, running_variance = {};
  Tensor batches = {};  // float32 [1], may be undefined: goes up by one with every batch trained on
  float eps = 1e-5F, momentum = 0.1F;
};

// x [..., d] → the same shape and dtype. Statistics are float32 whatever the dtype. Training needs two rows or more.
Tensor batch_norm(Context& ctx, const Tensor& x, const BatchNormOptions& options);

}  // namespace transformer
