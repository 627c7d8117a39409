#include "transformer/ops/elementwise.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

Tensor unary(Context& ctx, const char* op, Unary kind, const Tensor& x) {
  check_float(ctx, op, "x", x);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).unary(ctx, kind, x, y);
  return record(ctx, y, {x}, [x = x.detach(), kind](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, x);
    kernels(ctx).unary_backward(ctx, kind, x, dy, dx);
    in[0].add(ctx, dx);
  });
}

// f(a, b) without a gradient; a and b are contiguous.
Tensor apply(Context& ctx, Binary kind, const Tensor& a, const Tensor& b) {
  Tensor y = Tensor::empty(ctx, Shape::broadcast("elementwise", a.shape(), b.shape()), a.dtype());
  kernels(ctx).binary(ctx, kind, a, b, y);
  return y;
}

void check_pair(Context& ctx, const char* op, const Tensor& a, const Tensor& b) {
  check_float(ctx, op, "a", a);
  check_float(ctx, op, "b", b);
  if (a.dtype() != b.dtype()) fail(op, "a {} is {} and b {} is {}: cast one of them", a.shape(), a.dtype(), b.shape(), b.dtype());
  Shape::broadcast(op, a.shape(), b.shape());
}

// Adds factor · g, summed over what was repeated, to the gradient of an operand of the given shape.
void add_summed(Context& ctx, GradientSlot& slot, const Shape& shape, const Tensor& g, float factor = 1.0F) {
  auto scaled = [&](const Tensor& t) {
    if (factor == 1.0F) return t;
    Tensor y = Tensor::like(ctx, t);
    kernels(ctx).scale(ctx, factor, t, y);
    return y;
  };
  if (g.shape() == shape) return slot.add(ctx, scaled(g));
  Shape kept = g.shape();  // 1 where it is summed
  for (int i = 1; i <= kept.rank(); ++i) kept[-i] = i <= shape.rank() ? shape[-i] : 1;
  if (factor == 1.0F) {
    auto [target, accumulate] = slot.target(ctx);
    Tensor sum = target.view(kept);
    return kernels(ctx).reduce(ctx, Reduction::sum, g, sum, accumulate);
  }
  Tensor sum = Tensor::empty(ctx, kept, g.dtype());
  kernels(ctx).reduce(ctx, Reduction::sum, g, sum, false);
  slot.add(ctx, scaled(sum).view(shape));
}

// a + sign · b
Tensor sum_of(Context& ctx, const char* op, Binary kind, float sign, const Tensor& a, const Tensor& b) {
  check_pair(ctx, op, a, b);
  const Tensor y = apply(ctx, kind, contiguous(ctx, a.detach()), contiguous(ctx, b.detach()));
  return record(ctx, y, {a, b}, [sign, to_a = a.shape(), to_b = b.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor g = contiguous(ctx, dy);
    if (in[0].needed()) add_summed(ctx, in[0], to_a, g);
    if (in[1].needed()) add_summed(ctx, in[1], to_b, g, sign);
  });
}

// The larger of sign · a and sign · b, times sign.
Tensor larger_of(Context& ctx, const char* op, Binary kind, float sign, const Tensor& a, const Tensor& b) {
  check_pair(ctx, op, a, b);
  const Tensor x = contiguous(ctx, a.detach()), z = contiguous(ctx, b.detach());
  return record(ctx, apply(ctx, kind, x, z), {a, b}, [sign, x, z](Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor g = contiguous(ctx, dy);
    const Tensor lead = sign > 0.0F ? apply(ctx, Binary::sub, z, x) : apply(ctx, Binary::sub, x, z);
    Tensor to_b = Tensor::like(ctx, g);  // dy where b is ahead, 0 elsewhere: what relu's gradient is
    kernels(ctx).unary_backward(ctx, Unary::relu, lead, g, to_b);
    if (in[0].needed()) add_summed(ctx, in[0], x.shape(), apply(ctx, Binary::sub, g, to_b));
    if (in[1].needed()) add_summed(ctx, in[1], z.shape(), to_b);
  });
}

}  // namespace

Tensor add(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of(ctx, "add", Binary::add, 1.0F, a, b); }
Tensor sub(Context& ctx, const Tensor& a, const Tensor& b) { return sum_of(ctx, "sub", Binary::sub, -1.0F, a, b); }
Tensor maximum(Context& ctx, const Tensor& a, const Tensor& b) { return larger_of(ctx, "maximum", Binary::max, 1.0F, a, b); }
Tensor minimum(Context& ctx, const Tensor& a, const Tensor& b) { return larger_of(ctx, "minimum", Binary::min, -1.0F, a, b); }

Tensor mul(Context& ctx, const Tensor& a, const Tensor& b) {
  check_pair(ctx, "mul", a, b);
  const Tensor x = contiguous(ctx, a.detach()), z = contiguous(ctx, b.detach());
  return record(ctx, apply(ctx, Binary::mul, x, z), {a, b},
                [x = has_gradient(b) ? x : Tensor(), z = has_gradient(a) ? z : Tensor(), to_a = a.shape(), to_b = b.shape()](
                    Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor g = contiguous(ctx, dy);
    if (in[0].needed()) add_summed(ctx, in[0], to_a, apply(ctx, Binary::mul, g, z));
    if (in[1].needed()) add_summed(ctx, in[1], to_b, apply(ctx, Binary::mul, g, x));
  });
}

Tensor div(Context& ctx, const Tensor& a, const Tensor& b) {
  check_pair(ctx, "div", a, b);
  const Tensor z = contiguous(ctx, b.detach());
  const Tensor y = apply(ctx, Binary::div, contiguous(ctx, a.detach()), z);
  return record(ctx, y, {a, b},
                [z, y = has_gradient(b) ? y : Tensor(), to_a = a.shape(), to_b = b.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor g = apply(ctx, Binary::div, contiguous(ctx, dy), z);  // da = dy/b, db = -dy/b · y
    if (in[0].needed()) add_summed(ctx, in[0], to_a, g);
    if (in[1].needed()) add_summed(ctx, in[1], to_b, apply(ctx, Binary::mul, g, y), -1.0F);
  });
}

Tensor scale(Context& ctx, const Tensor& x, float factor) {
  check_float(ctx, "scale", "x", x);
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).scale(ctx, factor, x, y);
  return record(ctx, y, {x}, [factor](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, dy);
    kernels(ctx).scale(ctx, factor, dy, dx);
    in[0].add(ctx, dx);
  });
}

Tensor exp(Context& ctx, const Tensor& x) { return unary(ctx, "exp", Unary::exp, x); }
Tensor log(Context& ctx, const Tensor& x) { return unary(ctx, "log", Unary::log, x); }
Tensor sqrt(Context& ctx, const Tensor& x) { return unary(ctx, "sqrt", Unary::sqrt, x); }
Tensor rsqrt(Context& ctx, const Tensor& x) { return unary(ctx, "rsqrt", Unary::rsqrt, x); }
Tensor tanh(Context& ctx, const Tensor& x) { return unary(ctx, "tanh", Unary::tanh, x); }
Tensor sigmoid(Context& ctx, const Tensor& x) { return unary(ctx, "sigmoid", Unary::sigmoid, x); }
Tensor square(Context& ctx, const Tensor& x) { return unary(ctx, "square", Unary::square, x); }
Tensor abs(Context& ctx, const Tensor& x) { return unary(ctx, "abs", Unary::abs, x); }
Tensor neg(Context& ctx, const Tensor& x) { return unary(ctx, "neg", Unary::neg, x); }
Tensor sin(Context& ctx, const Tensor& x) { return unary(ctx, "sin", Unary::sin, x); }
Tensor cos(Context& ctx, const Tensor& x) { return unary(ctx, "cos", Unary::cos, x); }

}  // namespace transformer
