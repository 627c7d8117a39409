#pragma once
// Float32 tiles of 64 × 64 in shared memory for 256 threads. Thread (tx, ty) of 16 × 16 owns of a product of rows and rows the
// elements (ty + 16·i, tx + 16·j): those of one i share a block of random numbers.

#include "backend/cuda/attention.cuh"
#include "backend/cuda/types.cuh"

namespace transformer::tiles {

inline constexpr int kSide = 64, kStride = kSide + 4, kThreads = 256, kSize = kSide * kStride;

struct Thread {
  int x, y;
  __device__ Thread() : x(static_cast<int>(threadIdx.x) % 16), y(static_cast<int>(threadIdx.x) / 16) {}
};

// tile[r][c] = source row r, column c; 0 beyond `rows` and `columns`. `row_of(r)` is the row in memory.
template <class T, class RowOf>
__device__ void load_tile(float* tile, const TokenRows& from, RowOf row_of, int rows, std::int64_t column, int columns) {
  const int c = static_cast<int>(threadIdx.x) % kSide;
  for (int r = static_cast<int>(threadIdx.x) / kSide; r < kSide; r += kThreads / kSide)
    tile[r * kStride + c] = r < rows && c < columns ? to_float(*from.at<T>(row_of(r), column + c)) : 0.0F;
}

// s[i][j] += Σ_c a[ty + 16·i][c] · b[tx + 16·j][c]
__device__ inline void multiply_rows(const float* a, const float* b, float (&s)[4][4]) {
  const Thread t;
#pragma unroll 4
  for (int c = 0; c < kSide; c += 4) {
    float4 x[4], y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = *reinterpret_cast<const float4*>(a + (t.y + 16 * i) * kStride + c);
      y[i] = *reinterpret_cast<const float4*>(b + (t.x + 16 * i) * kStride + c);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] += x[i].x * y[j].x + x[i].y * y[j].y + x[i].z * y[j].z + x[i].w * y[j].w;
  }
}

// o[i][j] += Σ_n a[ty + 16·i][n] · b[n][4·tx + j]
__device__ inline void multiply(const float* a, const float* b, float (&o)[4][4]) {
  const Thread t;
#pragma unroll 4
  for (int n = 0; n < kSide; n += 4) {
    float4 x[4], y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = *reinterpret_cast<const float4*>(a + (t.y + 16 * i) * kStride + n);
      y[i] = *reinterpret_cast<const float4*>(b + (n + i) * kStride + 4 * t.x);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float xs[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        o[i][0] += xs[m] * y[m].x, o[i][1] += xs[m] * y[m].y, o[i][2] += xs[m] * y[m].z, o[i][3] += xs[m] * y[m].w;
      }
    }
  }
}

// to[ty + 16·i][tx + 16·j] = s[i][j], or its transpose.
__device__ inline void store_tile(const float (&s)[4][4], float* to, bool transposed) {
  const Thread t;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = t.y + 16 * i, c = t.x + 16 * j;
      to[transposed ? c * kStride + r : r * kStride + c] = s[i][j];
    }
}

// Rows ty + 16·i of o, columns 4·tx + j, times `factor`, to memory.
template <class T>
__device__ void write_tile(const float (&o)[4][4], const TokenRows& to, std::int64_t first_row, int rows, std::int64_t column, int columns,
                           float factor) {
  const Thread t;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (t.y + 16 * i < rows && 4 * t.x + j < columns)
        *to.at<T>(first_row + t.y + 16 * i, column + 4 * t.x + j) = from_float<T>(o[i][j] * factor);
}

__device__ inline void zero(float (&s)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] = 0.0F;
}

// What a product of rows and rows reads: `rows` rows of one head, row r at row_of(r), and the tile they go through. `there`: the tile
// holds them already if one is enough for all columns.
template <class RowOf>
struct Operand {
  const TokenRows& from;
  RowOf row_of;
  int rows;
  std::int64_t column;
  float* tile;
  bool there = false;
};
template <class RowOf>
Operand(const TokenRows&, RowOf, int, std::int64_t, float*, bool) -> Operand<RowOf>;

// s = products of rows over all of head_dim, 64 columns at a time, the chunk `last` at the end, so that its tiles remain. Begins
// with a barrier: the tiles may be in use until then.
template <class T, class A, class B>
__device__ void dot_rows(const Operand<A>& a, const Operand<B>& b, int head_dim, int last, float (&s)[4][4]) {
  const int chunks = (head_dim + kSide - 1) / kSide;
  zero(s);
  for (int n = 1; n <= chunks; ++n) {
    const int c = (last + n) % chunks * kSide, columns = min(kSide, head_dim - c);
    __syncthreads();
    if (chunks > 1 || !a.there) load_tile<T>(a.tile, a.from, a.row_of, a.rows, a.column + c, columns);
    if (chunks > 1 || !b.there) load_tile<T>(b.tile, b.from, b.row_of, b.rows, b.column + c, columns);
    __syncthreads();
    multiply_rows(a.tile, b.tile, s);
  }
}

// s = products of queries first_query … and keys first_key … → scores, -inf where a query does not see the key.
__device__ inline void finish_scores(const AttentionProblem& p, const HeadPlace& at, int first_query, int first_key, float (&s)[4][4]) {
  const Thread t;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = first_query + t.y + 16 * i;
    const KeyRange seen = query < at.queries ? at.visible(p, query) : KeyRange{0, 0};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = first_key + t.x + 16 * j;
      const bool sees = key >= seen.begin && key < seen.end;
      s[i][j] = sees ? s[i][j] * p.scale + at.added(p, query, key) : -INFINITY;
    }
  }
}

// The dropout factors of row i of this thread's elements of a tile.
__device__ inline void factors(const AttentionProblem& p, const HeadPlace& at, int query, int first_key, float (&f)[4]) {
  if (p.dropout.threshold == 0) {
    f[0] = f[1] = f[2] = f[3] = 1.0F;
    return;
  }
  const std::uint64_t group = at.random_group(p, query) + static_cast<std::uint64_t>(first_key / 64);
  const uint4 w = dropout_words(p, group, Thread().x);
  f[0] = p.dropout.factor(w.x);
  f[1] = p.dropout.factor(w.y);
  f[2] = p.dropout.factor(w.z);
  f[3] = p.dropout.factor(w.w);
}

}  // namespace transformer::tiles
