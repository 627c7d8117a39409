#pragma once

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// to = from, converting the dtype; same number of rows and columns. For loading; no gradient (see ops/shape.h: cast).
void copy_into(Context& ctx, const Tensor& from, Tensor& to);

}  // namespace transformer
