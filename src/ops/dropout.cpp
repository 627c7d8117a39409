#include "transformer/ops/dropout.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {

Tensor dropout(Context& ctx, const Tensor& x, float p) {
  check_float(ctx, "dropout", "x", x);
  if (!(p >= 0.0F && p < 1.0F)) fail("dropout", "p is {}: expected a probability in [0, 1)", p);
  if (!ctx.training() || p == 0.0F) return x;
  const DropoutArgs args{p, ctx.random().next()};
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).dropout(ctx, x, args, y);
  return record(ctx, y, {x}, [args](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, dy);
    kernels(ctx).dropout(ctx, dy, args, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace transformer
