#pragma once
// Products of few rows, as decoding has them: a warp for each column of the result, which reads its row of the weights once. Rows do not
// know of each other: what a sequence gets does not depend on how many are decoded with it.

#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {

inline constexpr std::int64_t most_few_rows = 8;

// c [m, n] = a [m, k] · w [n, k]ᵀ + bias, m ≤ M, k a multiple of 8.
template <int M, class T, class B>
__global__ void multiply_few_rows(Rows<const T> a, Rows<const T> w, const B* bias, Rows<T> c, int m, std::int64_t n, std::int64_t k) {
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (column >= n) return;  // whole warps
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
#pragma unroll
  for (int row = 0; row < M; ++row) {
    if (row >= m) continue;
    const float sum = over_warp<Sum>(sums[row]);
    if (threadIdx.x == 0) *c.at(row, column) = from_float<T>(bias != nullptr ? sum + to_float(bias[column]) : sum);
  }
}

}  // namespace transformer
