#pragma once
// Changes the values of a float32 tensor, on any device.

#include <utility>
#include <vector>

#include "transformer/core/tensor.h"
#include "transformer/ops/copy.h"

namespace transformer::test {

template <class Change>
void change(Context& ctx, Tensor t, Change&& to_values) {
  std::vector<float> values = t.to_vector<float>();
  std::forward<Change>(to_values)(values);
  copy_into(ctx, Tensor::from<float>(ctx, t.shape(), values), t);
}

}  // namespace transformer::test
