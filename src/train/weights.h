#pragma once
// A model's weights as plain numbers beside the model: moving averages, averages of checkpoints, a copy to come back to.

#include <vector>

#include "train/arena.h"
#include "transformer/core/tensor.h"
#include "transformer/nn/parameter.h"

namespace transformer {

using Weights = std::vector<Tensor>;

Weights tensors_of(const std::vector<NamedParameter>& parameters);  // themselves, one a parameter
Weights copy_of(Context& ctx, const Weights& weights);
void assign(Context& ctx, const Weights& weights, const Weights& values);
// mean ← keep · mean + (1 - keep) · weights
void blend(Context& ctx, Weights& mean, float keep, const Weights& weights);

// A moving average of a model's weights. Those of parameters in an arena lie in one block like it.
struct Average {
  Weights weights;  // one for each of those that it is the average of
  Weights of;       // the same in few pieces, for one call of a kernel: what it is the average of,
  Weights blocks;   // and the average

  Average() = default;
  Average(Context& ctx, const Weights& averaged, const Arena& arena);  // begins as they are
  bool empty() const { return weights.empty(); }
};

// Calls use() while the model has other weights; then, whether use() fails or not, it has its own again.
template <class Use>
void with_weights(Context& ctx, const Weights& weights, const Weights& others, Use&& use) {
  const Weights own = copy_of(ctx, weights);
  try {
    assign(ctx, weights, others);
    use();
  } catch (...) {
    assign(ctx, weights, own);
    throw;
  }
  assign(ctx, weights, own);
}

}  // namespace transformer
