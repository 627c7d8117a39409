// Sums and maxima along axes, in an order that depends on the shape alone.
#include "backend/axes.h"
#include "backend/cuda/column_sums.cuh"

namespace transformer {
namespace {

// x [outer, n], dense lines of n: one block for each.
template <class Op, class T, class Y>
__global__ void reduce_lines(const T* x, std::int64_t n, Y* y, float factor, bool accumulate) {
  const T* line = x + blockIdx.x * n;
  float total = Op::start;  // of parts of 16 each: long sums keep their digits
  for (std::int64_t i = threadIdx.x; i < n;) {
    float part = Op::start;
    for (int k = 0; k < 16 && i < n; ++k, i += blockDim.x) part = Op::of(part, to_float(line[i]));
    total = Op::of(total, part);
  }
  total = over_block<Op>(total) * factor;
  if (threadIdx.x == 0) y[blockIdx.x] = from_float<Y>(accumulate ? to_float(y[blockIdx.x]) + total : total);
}

// x [outer, n, inner]: one thread for each result.
template <class Op, class T, class Y>
__global__ void reduce_middle(const T* x, std::int64_t outer, std::int64_t n, std::int64_t inner, Y* y, float factor, bool accumulate) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= outer * inner) return;
  const T* from = x + at / inner * n * inner + at % inner;
  float total = Op::start;
  for (std::int64_t i = 0; i < n;) {
    float part = Op::start;
    for (int k = 0; k < 16 && i < n; ++k, ++i) part = Op::of(part, to_float(from[i * inner]));
    total = Op::of(total, part);
  }
  total *= factor;
  y[at] = from_float<Y>(accumulate ? to_float(y[at]) + total : total);
}

template <class Op>
void reduce_one(Context& ctx, const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, Tensor& y, float factor,
                bool accumulate) {
  visit_device_float("reduce", x.dtype(), [&]<class T>() {
    visit_device_float("reduce", y.dtype(), [&]<class Y>() {
      const T* from = values_of<T>(x);
      Y* to = mutable_values_of<Y>(y);
      if (inner == 1) {
        const unsigned threads = n >= 1024 ? 256 : n >= 256 ? 128 : 32;
        launch(ctx, "reduce", reduce_lines<Op, T, Y>, dim3(static_cast<unsigned>(outer)), dim3(threads), 0, from, n, to, factor,
               accumulate);
      } else if (outer == 1 && n >= 64) {
        reduce_columns<Op>(ctx, "reduce", ElementsOf<T>{{from, inner}}, n, inner, reinterpret_cast<std::uintptr_t>(from) % 16 == 0, to,
                           factor, accumulate);
      } else {
        launch(ctx, "reduce", reduce_middle<Op, T, Y>, dim3(static_cast<unsigned>(blocks_of(outer * inner, 256))), dim3(256), 0, from,
               outer, n, inner, to, factor, accumulate);
      }
    });
  });
}

}  // namespace

void CudaKernels::reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) {
  reduce_axes(*this, ctx, kind, x, y, accumulate,
              [&](const Tensor& from, std::int64_t outer, std::int64_t n, std::int64_t inner, Tensor& to, float factor, bool adds) {
    if (kind == Reduction::max) reduce_one<Max>(ctx, from, outer, n, inner, to, factor, adds);
    else reduce_one<Sum>(ctx, from, outer, n, inner, to, factor, adds);
  });
}

void CudaKernels::sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) {
  if (x.rows() == 0) {
    if (!accumulate) fill(ctx, 0.0F, y);
    return;
  }
  visit_device_float("sum_rows", x.dtype(), [&]<class T>() {
    reduce_columns<Sum>(ctx, "sum_rows", ElementsOf<T>{rows_of<T>(x)}, x.rows(), x.cols(), is_wide(x), mutable_values_of<float>(y), 1.0F,
                        accumulate);
  });
}

}  // namespace transformer
