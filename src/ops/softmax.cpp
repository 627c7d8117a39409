#include "transformer/ops/softmax.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

Tensor softmax_of(Context& ctx, std::string_view op, const Tensor& x, bool log) {
  check_float(ctx, op, "x", x);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).softmax(ctx, x, log, y);
  return record(ctx, y, {x}, [y, log](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, y);
    kernels(ctx).softmax_backward(ctx, y, dy, log, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace

Tensor softmax(Context& ctx, const Tensor& x) { return softmax_of(ctx, "softmax", x, false); }
Tensor log_softmax(Context& ctx, const Tensor& x) { return softmax_of(ctx, "log_softmax", x, true); }

}  // namespace transformer
