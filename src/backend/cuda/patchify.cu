// Images cut into patches, and the gradient: patches added back where they were cut out.
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

struct PatchGrid {
  std::int64_t channels, height, width, down, across;  // of the image, and patches in it
  std::int64_t patch_height, patch_width, stride_y, stride_x;
  PatchGrid(const Tensor& image, const Kernels::PatchArgs& args)
      : channels(image.dim(1)), height(image.dim(2)), width(image.dim(3)), down((height - args.height) / args.stride_y + 1),
        across((width - args.width) / args.stride_x + 1), patch_height(args.height), patch_width(args.width), stride_y(args.stride_y),
        stride_x(args.stride_x) {}
};

// One thread for each element of the patches.
template <class T>
__global__ void cut_patches(Rows<const T> x, PatchGrid g, Rows<T> y, std::int64_t n) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const std::int64_t cols = g.channels * g.patch_height * g.patch_width, patch = at / cols, inside = at % cols;
  const std::int64_t j = inside % g.patch_width, i = inside / g.patch_width % g.patch_height, c = inside / (g.patch_width * g.patch_height);
  const std::int64_t px = patch % g.across, py = patch / g.across % g.down, image = patch / (g.across * g.down);
  *y.at(patch, inside) = *x.at((image * g.channels + c) * g.height + py * g.stride_y + i, px * g.stride_x + j);
}

// One thread for each pixel: it collects the patches that cover it, in a fixed order.
template <class T>
__global__ void add_patches(Rows<const T> dy, PatchGrid g, Rows<T> dx, std::int64_t n) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const std::int64_t x = at % g.width, row = at / g.width, y = row % g.height, c = row / g.height % g.channels,
                     image = row / (g.height * g.channels);
  float sum = 0.0F;
  const std::int64_t first_y = y < g.patch_height ? 0 : (y - g.patch_height) / g.stride_y + 1, last_y = min(g.down - 1, y / g.stride_y);
  const std::int64_t first_x = x < g.patch_width ? 0 : (x - g.patch_width) / g.stride_x + 1, last_x = min(g.across - 1, x / g.stride_x);
  for (std::int64_t py = first_y; py <= last_y; ++py)
    for (std::int64_t px = first_x; px <= last_x; ++px)
      sum += to_float(
          *dy.at((image * g.down + py) * g.across + px, (c * g.patch_height + y - py * g.stride_y) * g.patch_width + x - px * g.stride_x));
  *dx.at(row, x) = from_float<T>(sum);
}

}  // namespace

void CudaKernels::patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  visit_device_float("patchify", x.dtype(), [&]<class T>() {
    launch(ctx, "patchify", cut_patches<T>, dim3(static_cast<unsigned>(blocks_of(n, 256))), dim3(256), 0, rows_of<T>(x), PatchGrid(x, args),
           mutable_rows_of<T>(y), n);
  });
}

void CudaKernels::patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx) {
  const std::int64_t n = dx.numel();
  if (n == 0) return;
  visit_device_float("patchify_backward", dx.dtype(), [&]<class T>() {
    launch(ctx, "patchify_backward", add_patches<T>, dim3(static_cast<unsigned>(blocks_of(n, 256))), dim3(256), 0, rows_of<T>(dy),
           PatchGrid(dx, args), mutable_rows_of<T>(dx), n);
  });
}

}  // namespace transformer
