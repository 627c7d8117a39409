#include "transformer/ops/random.h"

#include "backend/kernels.h"
#include "transformer/ops/check.h"

namespace transformer {

void fill_uniform(Context& ctx, Tensor& t, float low, float high) {
  check_float(ctx, "random", "tensor", t);
  if (t.dtype() != DType::float32 || !t.is_contiguous())
    fail("random", "needs a contiguous float32 tensor, got {} {}", t.dtype(), t.shape());
  kernels(ctx).uniform(ctx, ctx.random().next(), low, high, t);
}

Tensor random_uniform(Context& ctx, const Shape& shape, float low, float high) {
  Tensor t = Tensor::empty(ctx, shape);
  fill_uniform(ctx, t, low, high);
  return t;
}

Tensor random_normal(Context& ctx, const Shape& shape, float mean, float deviation) {
  Tensor t = Tensor::empty(ctx, shape);
  kernels(ctx).normal(ctx, ctx.random().next(), mean, deviation, t);
  return t;
}

}  // namespace transformer
