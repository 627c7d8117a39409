// Tensors that start with a value: declared with Tensor, computed by the device's kernels.
#include "backend/kernels.h"

namespace transformer {

Tensor Tensor::zeros(Context& ctx, const Shape& shape, DType dtype) { return full(ctx, shape, 0.0F, dtype); }

Tensor Tensor::full(Context& ctx, const Shape& shape, float value, DType dtype) {
  Tensor t = empty(ctx, shape, dtype);
  kernels(ctx).fill(ctx, value, t);
  return t;
}

}  // namespace transformer
