#pragma once
// Elementwise kernels: a functor with `template <int N> __device__ void apply(row, column)` is called for every N elements of the rows.

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {

template <int N, class F>
__global__ void over_rows_kernel(const F f, std::int64_t rows, std::int64_t cols) {
  const std::int64_t column = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
  if (column >= cols) return;
  for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += std::int64_t{gridDim.y} * blockDim.y) {
    if (column + N <= cols) {
      f.template apply<N>(row, column);
    } else {
      for (std::int64_t c = column; c < cols; ++c) f.template apply<1>(row, c);
    }
  }
}

// One long row where all operands are contiguous.
struct Extent {
  std::int64_t rows, cols;
  bool wide;
};
template <class... Others>
Extent extent_of(const Tensor& x, const Others&... others) {
  if (x.numel() == 0) return {0, 0, false};
  const bool flat = (x.is_contiguous() && ... && others.is_contiguous());
  const auto aligned = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0; };
  if (flat) return {1, x.numel(), (aligned(x) && ... && aligned(others))};
  return {x.rows(), x.cols(), (is_wide(x) && ... && is_wide(others))};
}

template <class F>
void over_rows(Context& ctx, const char* name, const Extent& extent, const F& f) {
  if (extent.rows == 0 || extent.cols == 0) return;
  const std::int64_t width = extent.wide ? 8 : 1, pieces = blocks_of(extent.cols, width);
  unsigned x = 256;
  while (x > 1 && blocks_of(pieces, x) * x > pieces + pieces / 8) x /= 2;  // few threads that have nothing to do
  const unsigned y = std::min<unsigned>(256 / x, 64);
  const dim3 grid(static_cast<unsigned>(blocks_of(pieces, x)),
                  static_cast<unsigned>(std::min<std::int64_t>(blocks_of(extent.rows, y), 32768)));
  if (extent.wide) launch(ctx, name, over_rows_kernel<8, F>, grid, dim3(x, y), 0, f, extent.rows, extent.cols);
  else launch(ctx, name, over_rows_kernel<1, F>, grid, dim3(x, y), 0, f, extent.rows, extent.cols);
}

}  // namespace transformer
