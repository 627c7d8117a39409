#pragma once
// Reductions along axes; negative axes count from the end, none given means all. With `keep` the reduced axes stay
// with size 1, otherwise they go. Computed in float32, returned in the dtype of x.

#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

Tensor sum(Context& ctx, const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor mean(Context& ctx, const Tensor& x, std::vector<int> axes = {}, bool keep = false);
Tensor max(Context& ctx, const Tensor& x, std::vector<int> axes = {}, bool keep = false);  // the gradient goes to the first maximum

}  // namespace transformer
