#include "transformer/ops/patchify.h"

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

std::int64_t count_patches(std::string_view op, std::int64_t size, std::int64_t patch, std::int64_t stride) {
  if (patch < 1 || stride < 0)
    fail(op, "a patch of size {} and stride {} cannot be: sizes start at 1, strides at 0 (as large as the patch)", patch, stride);
  if (size < patch) fail(op, "a patch of size {} does not fit into {}", patch, size);
  return (size - patch) / (stride == 0 ? patch : stride) + 1;
}

// x as [n, channels, h, w]; `rows` patches in all.
Tensor cut(Context& ctx, const Tensor& x, const Shape& extent, Kernels::PatchArgs args, std::int64_t rows) {
  if (args.stride_y == 0) args.stride_y = args.height;
  if (args.stride_x == 0) args.stride_x = args.width;
  Tensor y = Tensor::empty(ctx, {rows, extent[1] * args.height * args.width}, x.dtype());
  kernels(ctx).patchify(ctx, x.view(extent), args, y);
  return record(ctx, y, {x}, [extent, args, shape = x.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::empty(ctx, extent, dy.dtype());
    kernels(ctx).patchify_backward(ctx, dy, args, dx);
    in[0].add(ctx, dx.view(shape));
  });
}

}  // namespace

std::int64_t patch_count(std::int64_t size, std::int64_t patch, std::int64_t stride) {
  return count_patches("patch_count", size, patch, stride);
}

Tensor patchify(Context& ctx, const Tensor& images, Patches p) {
  check_float(ctx, "patchify", "images", images);
  if (images.rank() != 4) fail("patchify", "images {} must have four dimensions [n, channels, height, width]", images.shape());
  const std::int64_t down = count_patches("patchify", images.dim(2), p.height, p.stride_y);
  const std::int64_t across = count_patches("patchify", images.dim(3), p.width, p.stride_x);
  auto uneven = [](std::int64_t size, std::int64_t patch, std::int64_t stride) {
    return (stride == 0 || stride == patch) && size % patch != 0;
  };
  if (uneven(images.dim(2), p.height, p.stride_y) || uneven(images.dim(3), p.width, p.stride_x))
    fail("patchify", "patches of {} x {} do not cover images {} exactly: resize or crop them first", p.height, p.width, images.shape());
  return cut(ctx, images, images.shape(), {.height = p.height, .width = p.width, .stride_y = p.stride_y, .stride_x = p.stride_x},
             images.dim(0) * down * across);
}

Tensor patchify_series(Context& ctx, const Tensor& x, std::int64_t length, std::int64_t stride) {
  check_float(ctx, "patchify_series", "x", x);
  if (x.rank() != 2) fail("patchify_series", "x {} must have two dimensions [n, size]", x.shape());
  const std::int64_t count = count_patches("patchify_series", x.dim(1), length, stride);
  return cut(ctx, x, {x.dim(0), 1, 1, x.dim(1)}, {.height = 1, .width = length, .stride_y = 1, .stride_x = stride}, x.dim(0) * count);
}

}  // namespace transformer
