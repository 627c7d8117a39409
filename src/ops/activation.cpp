#include "transformer/ops/activation.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

Tensor apply(Context& ctx, const char* op, Activation kind, const Tensor& x) {
  check_float(ctx, op, "x", x);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).unary(ctx, unary_of(kind), x, y);
  // Relu's gradient can be told from its output, which the next op keeps anyway.
  const Tensor saved = kind == Activation::relu ? y : x.detach();
  return record(ctx, y, {x}, [saved, kind](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, saved);
    kernels(ctx).activation_backward(ctx, kind, saved, dy, 1.0F, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace

Tensor relu(Context& ctx, const Tensor& x) { return apply(ctx, "relu", Activation::relu, x); }
Tensor gelu(Context& ctx, const Tensor& x) { return apply(ctx, "gelu", Activation::gelu, x); }
Tensor gelu_tanh(Context& ctx, const Tensor& x) { return apply(ctx, "gelu_tanh", Activation::gelu_tanh, x); }
Tensor silu(Context& ctx, const Tensor& x) { return apply(ctx, "silu", Activation::silu, x); }

Tensor activate(Context& ctx, Activation kind, const Tensor& x) {
  switch (kind) {
    case Activation::none: check_float(ctx, "activate", "x", x); return x;
    case Activation::relu: return relu(ctx, x);
    case Activation::gelu: return gelu(ctx, x);
    case Activation::gelu_tanh: return gelu_tanh(ctx, x);
    case Activation::silu: return silu(ctx, x);
  }
  fail("activate", "unknown activation {}", static_cast<int>(kind));
}

Tensor gated(Context& ctx, Activation kind, const Tensor& x) {
  check_float(ctx, "gated", "x", x);
  if (x.rank() == 0 || x.dim(-1) % 2 != 0)
    fail("gated", "x {} must end in an even size: expected [..., 2·h], gate and up side by side", x.shape());
  Tensor y = Tensor::empty(ctx, x.shape().with_back(x.dim(-1) / 2), x.dtype());
  kernels(ctx).gated(ctx, kind, x, y);
  return record(ctx, y, {x}, [x = x.detach(), kind](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, x);
    kernels(ctx).gated_backward(ctx, kind, x, dy, dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace transformer
