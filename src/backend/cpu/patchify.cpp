// Images cut into patches, and the gradient: patches added back where they were cut out.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/patchify.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// Each line of dx [n, c, h, w] collects, in float32 and in a fixed order, the lines of all patches that cover it.
void AddPatches(Context& ctx, const Tensor& dy, const Kernels::PatchArgs& args, Tensor& dx) {
  visit_float("patchify_backward", dx.dtype(), [&]<class T>() {
    const std::int64_t channels = dx.dim(1), height = dx.dim(2), width = dx.dim(3), dx_stride = dx.row_stride(),
                       dy_stride = dy.row_stride();
    const std::int64_t down = (height - args.height) / args.stride_y + 1, across = (width - args.width) / args.stride_x + 1;
    const T* from = dy.data<T>();
    T* to = dx.mutable_data<T>();
    parallel_for(ctx.threads(), dx.rows(), 1 + 16384 / std::max<std::int64_t>(width, 1),
                 [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      std::vector<float> line(static_cast<std::size_t>(width));
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t y = row % height, channel = row / height % channels, image = row / (height * channels);
        std::fill(line.begin(), line.end(), 0.0F);
        // Patches py with py·stride ≤ y < py·stride + size.
        const std::int64_t first = y < args.height ? 0 : (y - args.height) / args.stride_y + 1,
                           last = std::min(down - 1, y / args.stride_y);
        for (std::int64_t py = first; py <= last; ++py) {
          const std::int64_t inside = (channel * args.height + y - py * args.stride_y) * args.width;
          for (std::int64_t px = 0; px < across; ++px) {
            const T* HWY_RESTRICT patch = from + ((image * down + py) * across + px) * dy_stride + inside;
            float* HWY_RESTRICT sum = line.data() + px * args.stride_x;
            ForVectors(args.width, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
              StoreSome(whole, hn::Add(LoadSome(whole, sum + i, m), LoadSome(whole, patch + i, m)), sum + i, m);
            });
          }
        }
        const float* HWY_RESTRICT sum = line.data();
        T* HWY_RESTRICT out = to + row * dx_stride;
        ForVectors(width,
                   [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, LoadSome(whole, sum + i, m), out + i, m); });
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(AddPatches);

void CpuKernels::patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y) {
  const std::int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), size = size_of(x.dtype());
  const std::int64_t down = (height - args.height) / args.stride_y + 1, across = (width - args.width) / args.stride_x + 1;
  const std::int64_t x_stride = x.row_stride() * size, y_stride = y.row_stride() * size, line = args.width * size;
  if (y.numel() == 0) return;
  const std::byte* from = x.raw();
  std::byte* to = y.mutable_raw();
  parallel_for(ctx.threads(), y.rows(), 1 + 16384 / std::max<std::int64_t>(y.cols(), 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t patch = begin; patch < end; ++patch) {
      const std::int64_t px = patch % across, py = patch / across % down, image = patch / (across * down);
      std::byte* out = to + patch * y_stride;
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t i = 0; i < args.height; ++i, out += line) {
          const std::int64_t row = (image * channels + c) * height + py * args.stride_y + i;
          std::memcpy(out, from + row * x_stride + px * args.stride_x * size, static_cast<std::size_t>(line));
        }
    }
  });
}

void CpuKernels::patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(AddPatches)(ctx, dy, args, dx);
}

}  // namespace transformer
#endif
