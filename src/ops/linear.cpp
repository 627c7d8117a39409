#include "transformer/ops/linear.h"

#include "ops/dropout_args.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

Tensor as_matrix(const Tensor& t) { return t.view({t.rows(), t.cols()}); }

void check_linear(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_float(ctx, "linear", "x", x);
  check_float(ctx, "linear", "weight", weight);
  if (weight.rank() != 2) fail("linear", "weight {} must have two dimensions [out, in]", weight.shape());
  if (x.rank() == 0 || x.dim(-1) != weight.dim(1))
    fail("linear", "x {} does not fit weight {}: expected x [..., {}]", x.shape(), weight.shape(), weight.dim(1));
  if (!bias.defined()) return;
  check_float(ctx, "linear", "bias", bias);
  if (bias.shape() != Shape{weight.dim(0)})
    fail("linear", "bias {} does not fit weight {}: expected [{}]", bias.shape(), weight.shape(), weight.dim(0));
}

}  // namespace

Tensor linear(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, float dropout) {
  check_linear(ctx, x, weight, bias);
  const DropoutArgs drop = dropout_args(ctx, "linear", dropout);
  const Kernels::LinearArgs args{.bias = bias.detach(), .activation = activation, .dropout = drop};
  const Tensor w = in_precision(ctx, weight, x.dtype());  // [out, in]
  Tensor y = Tensor::empty(ctx, x.shape().with_back(weight.dim(0)), x.dtype());
  Tensor flat = as_matrix(y), kept;
  const bool recorded = records(ctx, {x, weight, bias});
  if (recorded && activation != Activation::none) kept = activation == Activation::relu ? flat : Tensor::like(ctx, flat);
  kernels(ctx).linear(ctx, as_matrix(x), w, args, flat, kept);
  if (!recorded) return y;

  return record(ctx, y, {x, weight, bias},
                // x makes the gradient of the weight alone: a frozen one does not need it.
                [x = has_gradient(weight) ? as_matrix(x) : Tensor(), w, args, kept](Context& ctx, const Tensor& dy, Slots& in) {
    Kernels::LinearGradients out;
    const bool apart = distinct(in);  // x may be the weight
    if (in[0].needed() && apart) {
      auto [dx, accumulate] = in[0].target(ctx);
      out.dx = as_matrix(dx), out.accumulate_dx = accumulate;
    } else if (in[0].needed()) {
      out.dx = Tensor::like(ctx, w);
    }
    if (in[1].needed()) {
      auto [dweight, accumulate] = in[1].target(ctx);
      out.dweight = dweight, out.accumulate_dweight = accumulate;
    }
    if (in[2].needed()) {
      auto [dbias, accumulate] = in[2].target(ctx);
      out.dbias = dbias, out.accumulate_dbias = accumulate;
    }
    kernels(ctx).linear_backward(ctx, x, w, args, kept, as_matrix(dy), out);
    if (in[0].needed() && !apart) in[0].add(ctx, out.dx);
  });
}

Tensor add_linear(Context& ctx, const Tensor& y, const Tensor& x, const Tensor& weight, float scale, std::int64_t column) {
  check_linear(ctx, x, weight, {});
  check_float(ctx, "add_linear", "y", y);
  const std::int64_t out = weight.dim(0);
  if (y.dtype() != x.dtype() || y.rank() == 0 || x.shape().with_back(y.dim(-1)) != y.shape())
    fail("add_linear", "y {} {} does not fit x {} {}: expected the same dtype, and the same sizes but for the last", y.shape(), y.dtype(),
         x.shape(), x.dtype());
  if (column < 0 || column + out > y.dim(-1))
    fail("add_linear", "columns {}…{} of y {} are to be changed: it has {}", column, column + out, y.shape(), y.dim(-1));
  const Tensor w = in_precision(ctx, weight, x.dtype());
  Tensor z = Tensor::empty(ctx, y.shape(), y.dtype());
  kernels(ctx).copy(ctx, y, z);
  Tensor part = as_matrix(z).column_block(column, out);
  kernels(ctx).matmul(ctx, as_matrix(x), w, part, {.transpose_b = true, .accumulate = true, .alpha = scale});
  return record(ctx, z, {y, x, weight},
                [x = has_gradient(weight) ? as_matrix(x) : Tensor(), w, scale, column](Context& ctx, const Tensor& dz, Slots& in) {
    const Tensor d = as_matrix(dz).column_block(column, w.dim(0));
    if (in[1].needed()) {
      auto [dx, accumulate] = in[1].target(ctx);
      Tensor flat = as_matrix(dx);
      kernels(ctx).matmul(ctx, d, w, flat, {.accumulate = accumulate, .alpha = scale});
    }
    if (in[2].needed()) {
      auto [dw, accumulate] = in[2].target(ctx);
      kernels(ctx).matmul(ctx, d, x, dw, {.transpose_a = true, .accumulate = accumulate, .alpha = scale});
    }
    in[0].add(ctx, dz);
  });
}

namespace {

// x repeated to `shape`; the gradient is summed back.
Tensor expand(Context& ctx, const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Tensor y = Tensor::empty(ctx, shape, x.dtype());
  Shape strides = shape, to = shape;  // strides of x, 0 where it repeats
  std::int64_t x_step = 1, y_step = 1;
  for (int i = 1; i <= shape.rank(); ++i) {
    const std::int64_t size = i <= x.rank() ? x.dim(-i) : 1;
    strides[-i] = size == 1 ? 0 : x_step;
    to[-i] = y_step;
    x_step = i == 1 ? x.row_stride() : x_step * size;
    y_step *= shape[-i];
  }
  kernels(ctx).strided_copy(ctx, shape, x, 0, strides, y, 0, to, false);
  return record(ctx, y, {x}, [shape = x.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    Shape kept = dy.shape();
    for (int i = 1; i <= kept.rank(); ++i) kept[-i] = i <= shape.rank() ? shape[-i] : 1;
    Tensor dx = Tensor::empty(ctx, kept, dy.dtype());
    kernels(ctx).reduce(ctx, Reduction::sum, dy, dx, false);
    in[0].add(ctx, dx.view(shape));
  });
}

// The product of matrices or of equally long batches of them.
Tensor multiply(Context& ctx, const Tensor& a, const Tensor& b, bool ta, bool tb, const Shape& shape) {
  auto batch = [](const Tensor& t) {
    return t.rank() <= 3 ? t.detach() : t.view({t.numel() / std::max<std::int64_t>(1, t.dim(-2) * t.dim(-1)), t.dim(-2), t.dim(-1)});
  };
  Tensor c = Tensor::empty(ctx, shape, a.dtype());
  Tensor flat = batch(c);
  kernels(ctx).matmul(ctx, batch(a), batch(b), flat, {.transpose_a = ta, .transpose_b = tb});
  return record(ctx, c, {a, b}, [a = batch(a), b = batch(b), ta, tb, batch](Context& ctx, const Tensor& dc, Slots& in) {
    const Tensor d = batch(dc);
    if (in[0].needed()) {
      auto [t, accumulate] = in[0].target(ctx);
      Tensor da = batch(t);
      if (ta) kernels(ctx).matmul(ctx, b, d, da, {.transpose_a = tb, .transpose_b = true, .accumulate = accumulate});
      else kernels(ctx).matmul(ctx, d, b, da, {.transpose_b = !tb, .accumulate = accumulate});
    }
    if (in[1].needed()) {
      auto [t, accumulate] = in[1].target(ctx);
      Tensor db = batch(t);
      if (tb) kernels(ctx).matmul(ctx, d, a, db, {.transpose_a = true, .transpose_b = ta, .accumulate = accumulate});
      else kernels(ctx).matmul(ctx, a, d, db, {.transpose_a = !ta, .accumulate = accumulate});
    }
  });
}

}  // namespace

Tensor matmul(Context& ctx, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  check_float(ctx, "matmul", "a", a);
  check_float(ctx, "matmul", "b", b);
  if (a.dtype() != b.dtype()) fail("matmul", "a {} is {} and b {} is {}: cast one of them", a.shape(), a.dtype(), b.shape(), b.dtype());
  if (a.rank() < 2 || b.rank() < 2) fail("matmul", "a {} and b {} must have two dimensions or more", a.shape(), b.shape());
  const std::int64_t m = a.dim(transpose_a ? -1 : -2), k = a.dim(transpose_a ? -2 : -1);
  const std::int64_t n = b.dim(transpose_b ? -2 : -1), k_b = b.dim(transpose_b ? -1 : -2);
  if (k != k_b)
    fail("matmul", "a {}{} and b {}{} do not fit: the inner sizes {} and {} differ", a.shape(), transpose_a ? " (transposed)" : "",
         b.shape(), transpose_b ? " (transposed)" : "", k, k_b);
  auto leading = [](const Tensor& t) { return Shape(std::span(t.shape().begin(), static_cast<std::size_t>(t.rank() - 2))); };
  const Shape batch = Shape::broadcast("matmul", leading(a), leading(b));
  auto full = [&](std::int64_t rows, std::int64_t cols) {
    std::vector<std::int64_t> dims(batch.begin(), batch.end());
    dims.insert(dims.end(), {rows, cols});
    return Shape(dims);
  };
  const Tensor ea = expand(ctx, a, full(a.dim(-2), a.dim(-1))), eb = expand(ctx, b, full(b.dim(-2), b.dim(-1)));
  return multiply(ctx, ea, eb, transpose_a, transpose_b, full(m, n));
}

}  // namespace transformer
