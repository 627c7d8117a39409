// Attention forward for every dtype, head_dim and option, in float32: out = softmax(scale · Q·Kᵀ + bias) · V. A block of threads owns
// 64 queries and 64 columns of the output, and walks over the keys with a running maximum and sum (online softmax).

#include "backend/cuda/attention_tiles.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace tiles;

__device__ float over_16_lanes_max(float x) {
  for (int m = 8; m > 0; m /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, m));
  return x;
}
__device__ float over_16_lanes_sum(float x) {
  for (int m = 8; m > 0; m /= 2) x += __shfl_xor_sync(0xFFFFFFFFU, x, m);
  return x;
}

// Grid: query blocks × chunks of 64 columns × heads × sequences.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_forward_general(AttentionProblem p, int blocks, int chunks) {
  SHARED_OF_LAUNCH(memory, float);
  float *q_tile = memory, *k_tile = memory + kSize, *v_tile = memory + 2 * kSize, *p_tile = memory + 3 * kSize;
  const Thread t;
  const int place = static_cast<int>(blockIdx.x) / (blocks * chunks), part = static_cast<int>(blockIdx.x) % (blocks * chunks);
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = (blocks - 1 - part / chunks) * kSide, chunk = part % chunks, d = p.head_dim;  // causal: the long ones first
  const int rows = min(kSide, at.queries - first), column = chunk * kSide, columns = min(kSide, d - column);
  if (rows <= 0) return;
  float o[4][4], top[4], sum[4];
  zero(o);
#pragma unroll
  for (int i = 0; i < 4; ++i) top[i] = -INFINITY, sum[i] = 0.0F;
  const int begin = at.visible(p, first).begin / kSide * kSide, end = at.visible(p, first + rows - 1).end;
  const auto q_row = [&](int r) { return static_cast<std::int64_t>(at.q_begin) + first + r; };
  for (int key = begin; key < end; key += kSide) {
    const auto k_row = [&](int r) { return at.key_row(p, key + r); };
    const int keys = min(kSide, end - key);
    float s[4][4];
    dot_rows<T>(Operand{p.q, q_row, rows, at.head * d, q_tile, key > begin}, Operand{p.k, k_row, keys, at.kv_head * d, k_tile, false}, d, 0,
                s);
    load_tile<T>(v_tile, p.v, k_row, keys, at.kv_head * d + column, columns);
    finish_scores(p, at, first, key, s);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float before = top[i];
      top[i] = fmaxf(before, over_16_lanes_max(fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3]))));
      const float shift = top[i] == -INFINITY ? 0.0F : top[i];
      const float shrink = before == -INFINITY ? 0.0F : expf(before - shift);
      float f[4];
      factors(p, at, first + t.y + 16 * i, key, f);
      float total = 0.0F;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] = expf(s[i][j] - shift);
        total += s[i][j];
        s[i][j] *= f[j];
        o[i][j] *= shrink;
      }
      sum[i] = sum[i] * shrink + over_16_lanes_sum(total);
    }
    store_tile(s, p_tile, false);
    __syncthreads();
    multiply(p_tile, v_tile, o);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float inverse = sum[i] > 0.0F ? 1.0F / sum[i] : 0.0F;
#pragma unroll
    for (int j = 0; j < 4; ++j) o[i][j] *= inverse;
    const int r = t.y + 16 * i;
    if (chunk == 0 && t.x == 0 && r < rows)
      p.lse[static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + first + r] = sum[i] > 0.0F ? top[i] + logf(sum[i])
                                                                                                           : -INFINITY;
  }
  write_tile<T>(o, p.out, at.q_begin + first, rows, at.head * d + column, columns, 1.0F);
}

// The weights after dropout, exp(score - lse) · factor, and 0 wherever there is no query or key.
// Grid: query blocks × key blocks × heads × sequences.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_weights_general(AttentionProblem p, int q_blocks, int k_blocks) {
  SHARED_OF_LAUNCH(memory, float);
  const Thread t;
  const int place = static_cast<int>(blockIdx.x) / (q_blocks * k_blocks), part = static_cast<int>(blockIdx.x) % (q_blocks * k_blocks);
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = part / k_blocks * kSide, key = part % k_blocks * kSide, d = p.head_dim;
  const auto q_row = [&](int r) { return static_cast<std::int64_t>(at.q_begin) + first + r; };
  const auto k_row = [&](int r) { return at.key_row(p, key + r); };
  float s[4][4];
  dot_rows<T>(Operand{p.q, q_row, at.queries - first, at.head * d, memory, false},
              Operand{p.k, k_row, at.keys - key, at.kv_head * d, memory + kSize, false}, d, 0, s);
  finish_scores(p, at, first, key, s);
  for (int i = 0; i < 4; ++i) {
    const int query = first + t.y + 16 * i;
    if (query >= p.queries.longest) continue;
    const float lse = query < at.queries ? p.lse[static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + query] : -INFINITY;
    float f[4];
    factors(p, at, query, key, f);
    float* to = p.weights + (static_cast<std::int64_t>(place) * p.queries.longest + query) * p.keys.longest;
    for (int j = 0; j < 4; ++j) {
      const int k = key + t.x + 16 * j;
      if (k < p.keys.longest) to[k] = lse == -INFINITY ? 0.0F : expf(s[i][j] - lse) * f[j];
    }
  }
}

unsigned tiles_of(int n) { return static_cast<unsigned>((n + kSide - 1) / kSide); }

}  // namespace

void general_attention(Context& ctx, DType dtype, const AttentionProblem& p) {
  const unsigned blocks = tiles_of(p.queries.longest), chunks = tiles_of(p.head_dim);
  const unsigned grid = blocks * chunks * static_cast<unsigned>(p.heads * p.queries.count);
  visit_device_float("attention", dtype, [&]<class T>() {
    launch(ctx, "attention", attention_forward_general<T>, dim3(grid), dim3(kThreads), 4 * kSize * sizeof(float), p,
           static_cast<int>(blocks), static_cast<int>(chunks));
  });
}

void attention_weights(Context& ctx, DType dtype, const AttentionProblem& p) {
  const unsigned q_blocks = tiles_of(p.queries.longest), k_blocks = tiles_of(p.keys.longest);
  const unsigned grid = q_blocks * k_blocks * static_cast<unsigned>(p.heads * p.queries.count);
  visit_device_float("attention", dtype, [&]<class T>() {
    launch(ctx, "attention_weights", attention_weights_general<T>, dim3(grid), dim3(kThreads), 2 * kSize * sizeof(float), p,
           static_cast<int>(q_blocks), static_cast<int>(k_blocks));
  });
}

}  // namespace transformer
