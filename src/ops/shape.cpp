#include "transformer/ops/shape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

int axis_of(const char* op, const Tensor& x, int axis) {
  const int i = axis < 0 ? axis + x.rank() : axis;
  if (i < 0 || i >= x.rank()) fail(op, "axis {} is out of range for x {}", axis, x.shape());
  return i;
}

// Elements from one index to the next along each axis.
Shape strides_of(const Tensor& x) {
  Shape strides = x.shape();
  std::int64_t step = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step = i == x.rank() - 1 ? x.row_stride() : step * x.dim(i);
  }
  return strides;
}

Shape permuted(const Shape& s, const std::vector<int>& axes) {
  Shape p = s;
  for (int i = 0; i < s.rank(); ++i) p[i] = s[axes[static_cast<std::size_t>(i)]];
  return p;
}

Tensor copied(Context& ctx, const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(ctx, x.shape(), dtype);
  kernels(ctx).copy(ctx, x, y);
  return y;
}

}  // namespace

Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape) {
  check_operand(ctx, "reshape", "x", x);
  Shape to = shape;
  std::int64_t known = 1;
  int open = -1;
  for (int i = 0; i < to.rank(); ++i) {
    if (to[i] >= 0) known *= to[i];
    else if (to[i] == -1 && open < 0) open = i;
    else fail("reshape", "{} is not a shape: one size may be -1, the others are 0 or more", shape);
  }
  if (open >= 0) to[open] = known == 0 ? 0 : x.numel() / known;
  if (to.numel() != x.numel()) fail("reshape", "x {} does not fit {}: it has {} elements", x.shape(), shape, x.numel());
  if (to == x.shape()) return x;
  const bool view = x.is_contiguous() || to.back() == x.cols();
  const Tensor y = (view ? x.detach() : contiguous(ctx, x.detach())).view(to);
  return record(ctx, y, {x},
                [from = x.shape()](Context& ctx, const Tensor& dy, Slots& in) { in[0].add(ctx, contiguous(ctx, dy).view(from)); });
}

Tensor permute(Context& ctx, const Tensor& x, const std::vector<int>& axes) {
  check_operand(ctx, "permute", "x", x);
  std::vector<int> order;
  for (int axis : axes) order.push_back(axis_of("permute", x, axis));
  std::vector<int> sorted = order, all(static_cast<std::size_t>(x.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) fail("permute", "the axes given for x {} are not each of its {} axes once", x.shape(), x.rank());
  if (order == all) return x;
  Tensor y = Tensor::empty(ctx, permuted(x.shape(), order), x.dtype());
  kernels(ctx).strided_copy(ctx, y.shape(), x, 0, permuted(strides_of(x), order), y, 0, strides_of(y), false);
  return record(ctx, y, {x}, [order](Context& ctx, const Tensor& dy, Slots& in) {
    auto [dx, accumulate] = in[0].target(ctx);
    kernels(ctx).strided_copy(ctx, dy.shape(), dy, 0, strides_of(dy), dx, 0, permuted(strides_of(dx), order), accumulate);
  });
}

Tensor transpose(Context& ctx, const Tensor& x, int a, int b) {
  check_operand(ctx, "transpose", "x", x);
  std::vector<int> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(axis_of("transpose", x, a))], axes[static_cast<std::size_t>(axis_of("transpose", x, b))]);
  return permute(ctx, x, axes);
}

Tensor slice(Context& ctx, const Tensor& x, int axis, std::int64_t begin, std::int64_t count) {
  check_operand(ctx, "slice", "x", x);
  const int i = axis_of("slice", x, axis);
  if (begin < 0 || count < 0 || begin > x.dim(i) || count > x.dim(i) - begin)
    fail("slice", "{} elements from {} on asked along axis {} of x {}", count, begin, axis, x.shape());
  if (count == x.dim(i)) return x;
  Tensor y;
  if (i == 0) {
    y = x.row_block(begin, count);
  } else if (i == x.rank() - 1) {
    y = x.column_block(begin, count);
  } else {
    Shape shape = x.shape();
    shape[i] = count;
    y = Tensor::empty(ctx, shape, x.dtype());
    kernels(ctx).strided_copy(ctx, shape, x, begin * strides_of(x)[i], strides_of(x), y, 0, strides_of(y), false);
  }
  return record(ctx, y, {x}, [i, begin](Context& ctx, const Tensor& dy, Slots& in) {
    auto [dx, accumulate] = in[0].target(ctx);
    if (!accumulate) kernels(ctx).fill(ctx, 0.0F, dx);
    const Shape strides = strides_of(dx);
    kernels(ctx).strided_copy(ctx, dy.shape(), dy, 0, strides_of(dy), dx, begin * strides[i], strides, accumulate);
  });
}

Tensor concat(Context& ctx, const std::vector<Tensor>& tensors, int axis) {
  if (tensors.empty()) fail("concat", "no tensors given");
  for (const Tensor& t : tensors) check_operand(ctx, "concat", "a tensor", t);
  const Tensor& first = tensors.front();
  const int at = axis_of("concat", first, axis);
  Shape shape = first.shape();
  shape[at] = 0;
  for (const Tensor& t : tensors) {
    Shape others = t.shape();
    if (others.rank() == shape.rank()) others[at] = shape[at];
    if (others != shape) fail("concat", "{} and {} differ in more than axis {}", first.shape(), t.shape(), axis);
    if (t.dtype() != first.dtype())
      fail("concat", "{} is {} and {} is {}: cast one of them", first.shape(), first.dtype(), t.shape(), t.dtype());
    shape[at] += t.dim(at);
  }
  Tensor y = Tensor::empty(ctx, shape, first.dtype());
  const Shape strides = strides_of(y);
  std::int64_t begin = 0;
  std::vector<Shape> parts;
  for (const Tensor& t : tensors) {
    kernels(ctx).strided_copy(ctx, t.shape(), t, 0, strides_of(t), y, begin * strides[at], strides, false);
    begin += t.dim(at);
    parts.push_back(t.shape());
  }
  return record(ctx, y, tensors, [parts, at](Context& ctx, const Tensor& dy, Slots& in) {
    const Shape strides = strides_of(dy);
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < parts.size(); begin += parts[i][at], ++i) {
      if (!in[i].needed()) continue;
      auto [dx, accumulate] = in[i].target(ctx);
      kernels(ctx).strided_copy(ctx, parts[i], dy, begin * strides[at], strides, dx, 0, strides_of(dx), accumulate);
    }
  });
}

Tensor cast(Context& ctx, const Tensor& x, DType dtype) {
  check_operand(ctx, "cast", "x", x);
  if (x.dtype() == dtype) return x;
  const Tensor y = copied(ctx, x, dtype);
  if (!is_float(dtype)) return y;  // integers have no gradient
  return record(ctx, y, {x}, [](Context& ctx, const Tensor& dy, Slots& in) { in[0].add(ctx, dy); });
}

Tensor contiguous(Context& ctx, const Tensor& x) {
  check_operand(ctx, "contiguous", "x", x);
  if (x.is_contiguous()) return x;
  return record(ctx, copied(ctx, x, x.dtype()), {x}, [](Context& ctx, const Tensor& dy, Slots& in) { in[0].add(ctx, dy); });
}

}  // namespace transformer
