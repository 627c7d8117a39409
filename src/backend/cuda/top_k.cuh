#pragma once
// The k largest of every row, and with them the row's log-softmax. A block of threads takes 4,096 columns: the k-th of its threads' own
// best bounds what can be among the k best, so that no more than k threads have anything to offer, and what they offer is ranked by
// counting. What the blocks of a row found is a list to which the same is done.

#include "backend/cuda/early.cuh"
#include "backend/cuda/types.cuh"

namespace transformer::largest {

inline constexpr int kThreads = 256, kEach = 16, kBlock = kThreads * kEach;
inline constexpr int kMost = 64;

// A value and its column as one number: the larger is the better, of equal values the lower column. 0: nothing.
using Pair = unsigned long long;

__device__ inline Pair pair_of(float value, unsigned column) {
  if (!(value > -INFINITY)) return 0;
  const unsigned bits = __float_as_uint(value == 0.0F ? 0.0F : value);  // -0 is 0
  const unsigned key = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return Pair{key} << 32 | (0xFFFFFFFFU - column);
}
__device__ inline float value_of(Pair pair) {
  const auto key = static_cast<unsigned>(pair >> 32);
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}
__device__ inline int column_of(Pair pair) { return static_cast<int>(0xFFFFFFFFU - static_cast<unsigned>(pair)); }

__device__ inline Pair better(Pair a, Pair b) { return a > b ? a : b; }
__device__ inline Pair best_of_warp(Pair mine) {
  const auto high = static_cast<unsigned>(mine >> 32);
  const unsigned top = __reduce_max_sync(0xFFFFFFFFU, high);
  const unsigned low = __reduce_max_sync(0xFFFFFFFFU, high == top ? static_cast<unsigned>(mine) : 0U);
  return Pair{top} << 32 | low;
}

// f(rank, pair) for the k best of the block's pairs; gives how many there are.
template <class F>
__device__ inline int best_of_block(const Pair (&mine)[kEach], int k, F&& f) {
  __shared__ Pair offers[kMost * kEach], bound;
  __shared__ int count;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  Pair best = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) best = better(best, mine[i]);
  offers[thread] = best;
  if (thread == 0) count = 0;
  __syncthreads();
  if (thread < 32) {
    constexpr int n = kThreads / 32;
    Pair bests[n];
#pragma unroll
    for (int i = 0; i < n; ++i) bests[i] = offers[i * 32 + lane];
    Pair last = 0;
    for (int round = 0; round < k; ++round) {
      Pair top = 0;
#pragma unroll
      for (int i = 0; i < n; ++i) top = better(top, bests[i]);
      last = best_of_warp(top);
      if (last == 0) break;  // fewer threads than k have any
#pragma unroll
      for (int i = 0; i < n; ++i)
        if (bests[i] == last) bests[i] = 0;
    }
    if (lane == 0) bound = last == 0 ? 1 : last;
  }
  __syncthreads();
  const Pair least = bound;
  if (best >= least) {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (mine[i] >= least) offers[atomicAdd(&count, 1)] = mine[i];
  }
  __syncthreads();
  const int offered = count;
  for (int i = thread; i < offered; i += kThreads) {
    const Pair pair = offers[i];
    int rank = 0;
    for (int j = 0; j < offered; ++j) rank += offers[j] > pair ? 1 : 0;
    if (rank < k) f(rank, pair);
  }
  return min(offered, k);
}

struct TopKTo {
  Pair* pairs;    // [rows, blocks, k]
  float2* sums;   // [rows, blocks]: the largest value, and the sum of exponentials below it
  float* values;  // [rows, k]
  std::int32_t* ids;
  int k, blocks;
  bool log;
};

__device__ inline void put(const TopKTo& to, std::int64_t row, int rank, Pair pair, float top, float log_sum) {
  float value = pair == 0 ? -INFINITY : value_of(pair);
  if (to.log && pair != 0) value = value - top - log_sum;
  const bool there = value > -INFINITY;
  to.values[row * to.k + rank] = there ? value : -INFINITY;
  to.ids[row * to.k + rank] = there ? column_of(pair) : -1;
}

// Grid: blocks × rows. With one block a row this is all.
template <class T>
__global__ void __launch_bounds__(kThreads) top_k_columns(Rows<const T> x, int cols, TopKTo to) {
  wait_for_last();
  const int thread = static_cast<int>(threadIdx.x), first = static_cast<int>(blockIdx.x) * kBlock;
  const std::int64_t row = blockIdx.y;
  float v[kEach];
  Pair mine[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int column = first + i * kThreads + thread;
    v[i] = column < cols ? to_float(*x.at(row, column)) : -INFINITY;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) mine[i] = pair_of(v[i], static_cast<unsigned>(first + i * kThreads + thread));
  float top = 0.0F, sum = 0.0F;
  if (to.log) {
    top = -INFINITY;
#pragma unroll
    for (int i = 0; i < kEach; ++i) top = fmaxf(top, v[i]);
    top = over_block<Max>(top);
    const float shift = top == -INFINITY ? 0.0F : top;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += expf(v[i] - shift);
    sum = over_block<Sum>(sum);
    if (thread == 0) to.sums[row * to.blocks + blockIdx.x] = make_float2(top, sum);
  }
  if (to.blocks == 1) {
    const float log_sum = sum == 0.0F ? 0.0F : logf(sum);
    const int found = best_of_block(mine, to.k, [&](int rank, Pair pair) { put(to, row, rank, pair, top, log_sum); });
    if (thread >= found && thread < to.k) put(to, row, thread, 0, top, log_sum);
    return;
  }
  Pair* pairs = to.pairs + (row * to.blocks + blockIdx.x) * to.k;
  const int found = best_of_block(mine, to.k, [&](int rank, Pair pair) { pairs[rank] = pair; });
  if (thread >= found && thread < to.k) pairs[thread] = 0;
}

// Grid: rows. What the blocks of a row found, 4,096 at a time together with the best so far.
__global__ static void __launch_bounds__(kThreads) top_k_join(TopKTo to) {
  __shared__ Pair kept[kMost];
  wait_for_last();
  const int thread = static_cast<int>(threadIdx.x), all = to.blocks * to.k;
  const std::int64_t row = blockIdx.x;
  float top = 0.0F, log_sum = 0.0F;
  if (to.log) {
    const float2* sums = to.sums + row * to.blocks;
    top = -INFINITY;
    for (int i = 0; i < to.blocks; ++i) top = fmaxf(top, sums[i].x);
    const float shift = top == -INFINITY ? 0.0F : top;
    float sum = 0.0F;
    for (int i = 0; i < to.blocks; ++i) sum += sums[i].y == 0.0F ? 0.0F : sums[i].y * expf(sums[i].x - shift);
    log_sum = sum == 0.0F ? 0.0F : logf(sum);
  }
  if (thread < kMost) kept[thread] = 0;
  __syncthreads();
  const int step = kBlock - kMost;
  for (int first = 0; first < all; first += step) {
    const int n = min(step, all - first);
    Pair mine[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = i * kThreads + thread;
      mine[i] = at < n ? to.pairs[row * all + first + at] : at - n < kMost ? kept[at - n] : 0;
    }
    __syncthreads();  // kept has been read
    const int found = best_of_block(mine, to.k, [&](int rank, Pair pair) { kept[rank] = pair; });
    if (thread >= found && thread < kMost) kept[thread] = 0;
    __syncthreads();
  }
  if (thread < to.k) put(to, row, thread, kept[thread], top, log_sum);
}

}  // namespace transformer::largest
