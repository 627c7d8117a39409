#pragma once
// Other arrangements of the same elements, of any dtype, with gradients. What can be a view is one and costs nothing.

#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"

namespace transformer {

// One size may be -1: it is what the others leave. A view unless x is strided and its last size changes.
Tensor reshape(Context& ctx, const Tensor& x, const Shape& shape);

// Axis i of the result is axis axes[i] of x. Copies.
Tensor permute(Context& ctx, const Tensor& x, const std::vector<int>& axes);
Tensor transpose(Context& ctx, const Tensor& x, int a, int b);  // exchanges two axes

// Elements begin … begin + count - 1 along an axis; along the first or the last axis a view.
Tensor slice(Context& ctx, const Tensor& x, int axis, std::int64_t begin, std::int64_t count);
// Tensors of one dtype, equal in all other sizes, one after the other along an axis.
Tensor concat(Context& ctx, const std::vector<Tensor>& tensors, int axis);

Tensor cast(Context& ctx, const Tensor& x, DType dtype);  // x itself when it has that dtype
Tensor contiguous(Context& ctx, const Tensor& x);         // x itself when its rows follow each other

}  // namespace transformer
