#include "transformer/ops/reduce.h"

#include <numeric>

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// The shapes of a result: with size 1 along the reduced axes, and as returned.
struct Reduced {
  Shape kept, shape;
};

Reduced reduced(const char* op, const Shape& x, const std::vector<int>& axes, bool keep) {
  std::vector<bool> gone(static_cast<std::size_t>(x.rank()), axes.empty());
  for (int axis : axes) {
    const int i = axis < 0 ? axis + x.rank() : axis;
    if (i < 0 || i >= x.rank()) fail(op, "axis {} is out of range for x {}", axis, x);
    if (gone[static_cast<std::size_t>(i)]) fail(op, "axis {} of x {} is given twice", axis, x);
    gone[static_cast<std::size_t>(i)] = true;
  }
  std::vector<std::int64_t> kept, left;
  for (int i = 0; i < x.rank(); ++i) {
    const bool g = gone[static_cast<std::size_t>(i)];
    kept.push_back(g ? 1 : x[i]);
    if (keep || !g) left.push_back(kept.back());
  }
  return {Shape(kept), Shape(left)};
}

Tensor reduce(Context& ctx, Reduction kind, const Tensor& x, const Reduced& to) {
  Tensor y = Tensor::empty(ctx, to.kept, x.dtype());
  kernels(ctx).reduce(ctx, kind, contiguous(ctx, x.detach()), y, false);
  return y;
}

// Strides of a contiguous tensor of shape `kept` over the axes of what was reduced to it: 0 along reduced axes.
Shape repeating_strides(const Shape& kept) {
  Shape strides = kept;
  std::int64_t step = 1;
  for (int i = kept.rank() - 1; i >= 0; step *= kept[i], --i) strides[i] = kept[i] == 1 ? 0 : step;
  return strides;
}

// The gradient of sums: g [kept] repeated along the reduced axes.
void add_repeated(Context& ctx, GradientSlot& slot, const Shape& shape, const Tensor& g) {
  auto [target, accumulate] = slot.target(ctx);
  const Shape to = repeating_strides(shape);
  kernels(ctx).strided_copy(ctx, shape, g, 0, repeating_strides(g.shape()), target, 0, to, accumulate);
}

Tensor linear_reduction(Context& ctx, const char* op, Reduction kind, const Tensor& x, const std::vector<int>& axes, bool keep) {
  check_float(ctx, op, "x", x);
  const Reduced to = reduced(op, x.shape(), axes, keep);
  const Tensor y = reduce(ctx, kind, x, to).view(to.shape);
  return record(ctx, y, {x}, [kind, shape = x.shape(), to](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor g = contiguous(ctx, dy).view(to.kept);
    if (kind == Reduction::mean && shape.numel() > 0) {
      Tensor scaled = Tensor::like(ctx, g);
      kernels(ctx).scale(ctx, static_cast<float>(static_cast<double>(to.kept.numel()) / static_cast<double>(shape.numel())), g, scaled);
      g = scaled;
    }
    add_repeated(ctx, in[0], shape, g);
  });
}

// 1 at the first maximum within each reduced part of x, 0 elsewhere; float32. With s = sign(x - y), 0 at the maxima
// and -1 below them, and p the position within the part, s·2²⁵ - p is largest at the first maximum.
Tensor first_maximum(Context& ctx, const Tensor& x, const Tensor& y) {
  constexpr std::int64_t limit = std::int64_t{1} << 24;  // positions are exact in float32
  auto binary = [&](Binary kind, const Tensor& a, const Tensor& b) {
    Tensor c = Tensor::empty(ctx, x.shape());
    kernels(ctx).binary(ctx, kind, a, b, c);
    return c;
  };
  const Tensor ones = Tensor::full(ctx, x.shape(), 1.0F);
  auto sign = [&](const Tensor& t) {
    Tensor s = Tensor::empty(ctx, x.shape());
    kernels(ctx).unary_backward(ctx, Unary::abs, t, ones, s);
    return s;
  };
  Shape part = x.shape();
  for (int i = 0; i < part.rank(); ++i)
    if (y.dim(i) == part[i]) part[i] = 1;
  if (part.numel() > limit)
    fail("max", "the gradient of a maximum over {} elements of x {} is not supported: at most {}", part.numel(), x.shape(), limit);
  std::vector<float> positions(static_cast<std::size_t>(part.numel()));
  std::iota(positions.begin(), positions.end(), 0.0F);

  const Tensor wide = cast(ctx, x, DType::float32);
  Tensor below = sign(binary(Binary::sub, wide, cast(ctx, y, DType::float32)));
  kernels(ctx).scale(ctx, 2.0F * static_cast<float>(limit), below, below);
  const Tensor score = binary(Binary::sub, below, Tensor::from<float>(ctx, part, positions));
  Tensor best = Tensor::empty(ctx, y.shape());
  kernels(ctx).reduce(ctx, Reduction::max, score, best, false);
  return binary(Binary::add, ones, sign(binary(Binary::sub, score, best)));
}

}  // namespace

Tensor sum(Context& ctx, const Tensor& x, std::vector<int> axes, bool keep) {
  return linear_reduction(ctx, "sum", Reduction::sum, x, axes, keep);
}

Tensor mean(Context& ctx, const Tensor& x, std::vector<int> axes, bool keep) {
  return linear_reduction(ctx, "mean", Reduction::mean, x, axes, keep);
}

Tensor max(Context& ctx, const Tensor& x, std::vector<int> axes, bool keep) {
  check_float(ctx, "max", "x", x);
  const Reduced to = reduced("max", x.shape(), axes, keep);
  if (x.numel() == 0 && to.kept.numel() != 0) fail("max", "x {} is empty along a reduced axis: there is no largest element", x.shape());
  const Tensor y = reduce(ctx, Reduction::max, x, to);
  return record(ctx, y.view(to.shape), {x}, [x = contiguous(ctx, x.detach()), y](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::empty(ctx, x.shape());
    kernels(ctx).binary(ctx, Binary::mul, first_maximum(ctx, x, y), cast(ctx, contiguous(ctx, dy).view(y.shape()), DType::float32), dx);
    in[0].add(ctx, dx);
  });
}

}  // namespace transformer
