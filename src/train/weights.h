#pragma once
// A model's weights as plain numbers beside the model: moving averages, averages of checkpoints, a copy to come back to.

#include <vector>

#include "transformer/core/tensor.h"
#include "transformer/nn/parameter.h"

namespace transformer {

using Weights = std::vector<Tensor>;  // one a parameter

Weights copy_of(Context& ctx, const std::vector<NamedParameter>& parameters);
void assign(Context& ctx, const std::vector<NamedParameter>& parameters, const Weights& values);
// mean ← keep · mean + (1 - keep) · parameters
void blend(Context& ctx, Weights& mean, float keep, const std::vector<NamedParameter>& parameters);

// While alive the model has other weights; then its own again.
class Exchanged {
 public:
  Exchanged(Context& ctx, std::vector<NamedParameter> parameters, const Weights& others);
  ~Exchanged();
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  Context& ctx_;
  std::vector<NamedParameter> parameters_;
  Weights own_;
};

}  // namespace transformer
