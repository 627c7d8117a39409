// Random numbers: what training draws at every step (dropout) is drawn on the device, what is drawn once (weights) on the CPU, so that a
// model begins with the same bits everywhere.
#include "backend/cuda/over_rows.cuh"
#include "backend/cuda/random.cuh"

namespace transformer {
namespace {

template <class T>
__global__ void dropout_groups(const T* x, Dropout dropout, T* y, std::int64_t groups) {  // contiguous, whole groups of 64
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, group = at / 8;
  if (group >= groups) return;
  const T* from = x + group * 64;
  T* to = y + group * 64;
  dropout_pairs(dropout, static_cast<std::uint64_t>(group), static_cast<unsigned>(at % 8), [&](unsigned i, float first, float second) {
    float v[2];
    load(from + i, v);
    v[0] *= first, v[1] *= second;
    store(v, to + i);
  });
}

template <class T>
struct DropEach {
  Rows<const T> x;
  Dropout dropout;
  Rows<T> y;
  std::int64_t cols, begin;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    for (int i = 0; i < N; ++i) {
      const float factor = dropout.factor(random_bits(dropout.address(), static_cast<std::uint64_t>(begin + row * cols + column + i)));
      *y.at(row, column + i) = from_float<T>(to_float(*x.at(row, column + i)) * factor);
    }
  }
};

Tensor drawn_on_host(const Tensor& like, auto&& draw) {
  Context host({.device = Device::cpu()});
  Tensor t = Tensor::empty(host, like.shape(), DType::float32);
  draw(host, t);
  return t;
}

}  // namespace

void CudaKernels::uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y) {
  Tensor there = drawn_on_host(y, [&](Context& host, Tensor& t) { kernels(host).uniform(host, stream, low, high, t); }).to(ctx);
  copy(ctx, there, y);
}

void CudaKernels::normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y) {
  Tensor there = drawn_on_host(y, [&](Context& host, Tensor& t) { kernels(host).normal(host, stream, mean, deviation, t); }).to(ctx);
  copy(ctx, there, y);
}

void CudaKernels::dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) {
  if (args.p == 0.0F) return copy(ctx, x, y);
  visit_device_float("dropout", x.dtype(), [&]<class T>() {
    const Extent extent = extent_of(x, y);
    const Dropout dropout(ctx, args);
    const Rows<const T> from = rows_of<T>(x);
    const Rows<T> to = mutable_rows_of<T>(y);
    std::int64_t done = 0;
    if (extent.rows == 1 && extent.wide && x.numel() >= 64) {
      const std::int64_t groups = x.numel() / 64;
      done = groups * 64;
      launch(ctx, "dropout", dropout_groups<T>, dim3(static_cast<unsigned>(blocks_of(groups * 8, 256))), dim3(256), 0, from.data, dropout,
             to.data, groups);
    }
    if (extent.rows == 1)
      over_rows(ctx, "dropout", {1, extent.cols - done, false},
                DropEach<T>{{from.data + done, 0}, dropout, {to.data + done, 0}, extent.cols, done});
    else over_rows(ctx, "dropout", {extent.rows, extent.cols, false}, DropEach<T>{from, dropout, to, extent.cols, 0});
  });
}

}  // namespace transformer
