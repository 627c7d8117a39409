// Softmax and log-softmax over the last dimension, and their gradients: one block for each row.
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

// A row of -inf has shift 0 and sum 0: its softmax is 0, its log-softmax -inf.
template <class T>
__global__ void softmax_rows(Rows<const T> x, bool log, Rows<T> y, std::int64_t cols) {
  const T* from = x.at(blockIdx.x, 0);
  T* to = y.at(blockIdx.x, 0);
  float top = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, to_float(from[i]));
  top = over_block<Max>(top);
  const float shift = top == -INFINITY ? 0.0F : top;
  float sum = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(to_float(from[i]) - shift);
  sum = over_block<Sum>(sum);
  const float log_sum = sum == 0.0F ? 0.0F : logf(sum), factor = sum == 0.0F ? 0.0F : 1.0F / sum;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float v = to_float(from[i]) - shift;
    to[i] = from_float<T>(log ? v - log_sum : expf(v) * factor);
  }
}

// softmax: dx = y·(dy - Σ y·dy); log-softmax: dx = dy - exp(y)·Σ dy
template <class T>
__global__ void softmax_backward_rows(Rows<const T> y, Rows<const T> dy, bool log, Rows<T> dx, std::int64_t cols) {
  const T *out = y.at(blockIdx.x, 0), *g = dy.at(blockIdx.x, 0);
  T* to = dx.at(blockIdx.x, 0);
  float dot = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) dot += log ? to_float(g[i]) : to_float(g[i]) * to_float(out[i]);
  dot = over_block<Sum>(dot);
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float o = to_float(out[i]), d = to_float(g[i]);
    to[i] = from_float<T>(log ? d - expf(o) * dot : o * (d - dot));
  }
}

unsigned threads_for(std::int64_t cols) { return cols >= 2048 ? 512 : cols >= 512 ? 128 : 32; }

}  // namespace

void CudaKernels::softmax(Context& ctx, const Tensor& x, bool log, Tensor& y) {
  visit_device_float("softmax", x.dtype(), [&]<class T>() {
    launch(ctx, "softmax", softmax_rows<T>, dim3(static_cast<unsigned>(x.rows())), dim3(threads_for(x.cols())), 0, rows_of<T>(x), log,
           mutable_rows_of<T>(y), x.cols());
  });
}

void CudaKernels::softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) {
  visit_device_float("softmax_backward", y.dtype(), [&]<class T>() {
    launch(ctx, "softmax_backward", softmax_backward_rows<T>, dim3(static_cast<unsigned>(y.rows())), dim3(threads_for(y.cols())), 0,
           rows_of<T>(y), rows_of<T>(dy), log, mutable_rows_of<T>(dx), y.cols());
  });
}

}  // namespace transformer
