#pragma once
// A model's weights as plain numbers beside the model: moving averages, averages of checkpoints, a copy to come back to.

#include <vector>

#include "train/arena.h"
#include "transformer/core/tensor.h"
#include "transformer/nn/parameter.h"

namespace transformer {

using Weights = std::vector<Tensor>;  // one a parameter

std::vector<Tensor> tensors_of(const std::vector<NamedParameter>& parameters);
Weights copy_of(Context& ctx, const std::vector<NamedParameter>& parameters);
void assign(Context& ctx, const std::vector<NamedParameter>& parameters, const Weights& values);
// mean ← keep · mean + (1 - keep) · parameters
void blend(Context& ctx, Weights& mean, float keep, const std::vector<NamedParameter>& parameters);

// A moving average of a model's weights. Those of parameters in an arena lie in one block like it.
struct Average {
  Weights weights;         // one a parameter
  std::vector<Tensor> of;  // the same in few pieces, for one call of a kernel: what it is the average of,
  Weights blocks;          // and the average

  Average() = default;
  Average(Context& ctx, const std::vector<NamedParameter>& parameters, const Arena& arena);  // begins as they are
  bool empty() const { return weights.empty(); }
};

// Calls use() while the model has other weights; then, whether use() fails or not, it has its own again.
template <class Use>
void with_weights(Context& ctx, const std::vector<NamedParameter>& parameters, const Weights& others, Use&& use) {
  const Weights own = copy_of(ctx, parameters);
  try {
    assign(ctx, parameters, others);
    use();
  } catch (...) {
    assign(ctx, parameters, own);
    throw;
  }
  assign(ctx, parameters, own);
}

}  // namespace transformer
