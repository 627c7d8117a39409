#pragma once
// Products of few rows, as decoding has them: a warp for each column of the result, which reads its row of the weights once. Rows do not
// know of each other: what a sequence gets does not depend on how many are decoded with it.

#include "backend/cuda/activations.cuh"
#include "backend/cuda/early.cuh"
#include "backend/cuda/types.cuh"

namespace transformer {

inline constexpr std::int64_t most_few_rows = 8;

// c [m, n] = activation(a [m, k] · w [n, k]ᵀ + bias), all of one dtype; bias float32 or theirs, may be undefined. False: these are not few
// rows, or they lie so that they cannot be read in whole 16 bytes.
bool few_rows(Context& ctx, const Tensor& a, const Tensor& w, const Tensor& bias, Activation activation, Tensor& c);

template <class Math>
__device__ float activated(Activation activation, float x) {
  float slope;
  switch (activation) {
    case Activation::relu: return ReluOf::apply(x, slope);
    case Activation::gelu: return GeluOf<Math>::apply(x, slope);
    case Activation::gelu_tanh: return GeluTanhOf<Math>::apply(x, slope);
    case Activation::silu: return SiluOf<Math>::apply(x, slope);
    default: return x;
  }
}

// m ≤ M, k a multiple of 8.
template <int M, class T, class B>
__global__ void multiply_few_rows(Rows<const T> a, Rows<const T> w, const B* bias, Activation activation, Rows<T> c, int m, std::int64_t n,
                                  std::int64_t k) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (column >= n) return;  // whole warps
  fetch_ahead(w.at(column, 0), k * static_cast<std::int64_t>(sizeof(T)));
  wait_for_last();
  float sums[M] = {};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x * 8; i < k; i += 32 * 8) {
    float u[8];
    load(w.at(column, i), u);
#pragma unroll
    for (int row = 0; row < M; ++row) {
      if (row >= m) continue;
      float v[8];
      load(a.at(row, i), v);
#pragma unroll
      for (int e = 0; e < 8; ++e) sums[row] += u[e] * v[e];
    }
  }
  let_next_begin();
#pragma unroll
  for (int row = 0; row < M; ++row) {
    if (row >= m) continue;
    const float sum = over_warp<Sum>(sums[row]);
    if (static_cast<int>(threadIdx.x) == row)
      *c.at(row, column) = from_float<T>(activated<MathOf<T>>(activation, bias != nullptr ? sum + to_float(bias[column]) : sum));
  }
}

}  // namespace transformer
