#include "transformer/ops/dropout.h"

#include "ops/dropout_args.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {

Tensor dropout(Context& ctx, const Tensor& x, float p) {
  check_float(ctx, "dropout", "x", x);
  const DropoutArgs args = dropout_args(ctx, "dropout", p);
  if (args.p == 0.0F) return x;
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).dropout(ctx, x, args, y);
  return record(ctx, y, {x}, [args](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, dy);
    kernels(ctx).dropout(ctx, dy, args, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace transformer
