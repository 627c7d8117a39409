#pragma once
// Sums over the rows, one for each column, in a fixed order: rows are taken in blocks, whose sums are added in order afterwards. The split
// depends on the shape alone.

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {

// One of no rows, too.
inline std::int64_t row_blocks_of(std::int64_t rows) { return std::clamp<std::int64_t>(blocks_of(rows, 64), 1, 256); }

// parts [blocks, cols] of Op over term(row, column). 32 columns · W for 32 lanes, 8 warps take turns in the rows.
template <class Op, int W, class Term>
__global__ void column_parts(const Term term, std::int64_t rows, std::int64_t cols, std::int64_t block_rows, float* parts) {
  __shared__ float sums[8][32 * W];
  const std::int64_t column = (std::int64_t{blockIdx.x} * 32 + threadIdx.x) * W;
  const std::int64_t begin = blockIdx.y * block_rows, end = min(rows, begin + block_rows);
  float total[W];
#pragma unroll
  for (int i = 0; i < W; ++i) total[i] = Op::start;
  if (column < cols)
    for (std::int64_t row = begin + threadIdx.y; row < end; row += 8) {
      float v[W];
      term.template get<W>(row, column, v);
#pragma unroll
      for (int i = 0; i < W; ++i) total[i] = Op::of(total[i], v[i]);
    }
#pragma unroll
  for (int i = 0; i < W; ++i) sums[threadIdx.y][threadIdx.x * W + i] = total[i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.y) * 32 + static_cast<int>(threadIdx.x); i < 32 * W; i += 256) {
    const std::int64_t at = std::int64_t{blockIdx.x} * 32 * W + i;
    if (at >= cols) continue;
    float sum = sums[0][i];
    for (int warp = 1; warp < 8; ++warp) sum = Op::of(sum, sums[warp][i]);
    parts[blockIdx.y * cols + at] = sum;
  }
}

// y [cols] (+)= factor · Op over the parts, which are `stride` apart; blockIdx.y = 1: another y, whose parts lie behind those of the first.
template <class Y>
struct ColumnSums {
  Y* y = nullptr;  // null: not wanted
  bool accumulate = false;
};
template <class Op, class Y>
__global__ void add_column_parts(const float* parts, std::int64_t blocks, std::int64_t cols, std::int64_t stride, ColumnSums<Y> first,
                                 ColumnSums<Y> second, float factor) {
  __shared__ float sums[32][33];
  const ColumnSums<Y> to = blockIdx.y == 0 ? first : second;
  if (to.y == nullptr) return;
  const std::int64_t column = std::int64_t{blockIdx.x} * 32 + threadIdx.x, at = blockIdx.y * cols + column;
  float sum = Op::start;
  if (column < cols)
    for (std::int64_t block = threadIdx.y; block < blocks; block += 32) sum = Op::of(sum, parts[block * stride + at]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= cols) return;
  for (int i = 1; i < 32; ++i) sum = Op::of(sum, sums[i][threadIdx.x]);
  sum *= factor;
  to.y[column] = from_float<Y>(to.accumulate ? to_float(to.y[column]) + sum : sum);
}
template <class Op, class Y>
void add_parts(Context& ctx, const char* name, const float* parts, std::int64_t blocks, std::int64_t cols, std::int64_t stride,
               const ColumnSums<Y>& first, const ColumnSums<Y>& second, float factor) {
  const dim3 grid(static_cast<unsigned>(blocks_of(cols, 32)), second.y != nullptr ? 2 : 1);
  launch(ctx, name, add_column_parts<Op, Y>, grid, dim3(32, 32), 0, parts, blocks, cols, stride, first, second, factor);
}

// y [cols] (+)= factor · Op over the rows of term.
template <class Op, class Term, class Y>
void reduce_columns(Context& ctx, const char* name, const Term& term, std::int64_t rows, std::int64_t cols, bool wide, Y* y, float factor,
                    bool accumulate) {
  const std::int64_t blocks = row_blocks_of(rows), block_rows = blocks_of(rows, blocks);
  Tensor parts = Tensor::empty(ctx, {blocks, cols});
  const auto each = [&](auto width) {
    constexpr int w = decltype(width)::value;
    launch(ctx, name, column_parts<Op, w, Term>, dim3(static_cast<unsigned>(blocks_of(cols, 32 * w)), static_cast<unsigned>(blocks)),
           dim3(32, 8), 0, term, rows, cols, block_rows, mutable_values_of<float>(parts));
  };
  if (wide && cols % 8 == 0) each(std::integral_constant<int, 8>{});
  else each(std::integral_constant<int, 1>{});
  add_parts<Op>(ctx, name, values_of<float>(parts), blocks, cols, cols, ColumnSums<Y>{y, accumulate}, {}, factor);
}

// The elements themselves.
template <class T>
struct ElementsOf {
  Rows<const T> x;
  template <int N>
  __device__ void get(std::int64_t row, std::int64_t column, float (&v)[N]) const {
    load(x.at(row, column), v);
  }
};

}  // namespace transformer
