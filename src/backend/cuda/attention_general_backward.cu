// Attention backward for every dtype, head_dim and option, in float32. The weights are computed again, tile by tile:
//   P  = exp(S - lse),  S = scale · Q·Kᵀ + bias         D  = rowsum(dO ∘ O)
//   dV = (P∘F)ᵀ · dO                                    F: dropout factors
//   dS = P ∘ (F ∘ dP - D),  dP = dO·Vᵀ
//   dQ = scale · dS · K,  dK = scale · dSᵀ · Q,  dbias = dS
// A block of threads owns what it writes and sums in one order: the same bits every time.

#include <algorithm>

#include "backend/cuda/attention_tiles.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace tiles;

// stats of 32 (token, head) pairs: eight lanes each.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_stats_general(AttentionProblem p) {
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * (kThreads / 8) + threadIdx.x / 8;
  const int lane = static_cast<int>(threadIdx.x) % 8;
  const std::int64_t token = pair / p.heads;
  const int head = static_cast<int>(pair % p.heads);
  const bool there = token < p.queries.total;
  float sum = 0.0F;
  if (there) {
    const T* o = p.out.at<T>(token, static_cast<std::int64_t>(head) * p.head_dim);
    const T* g = p.dout.at<T>(token, static_cast<std::int64_t>(head) * p.head_dim);
    constexpr int kVector = 16 / sizeof(T);
    const bool aligned = (reinterpret_cast<std::uintptr_t>(o) | reinterpret_cast<std::uintptr_t>(g)) % 16 == 0;
    int c = 0;
    if (aligned) {
      for (; c + kVector <= p.head_dim; c += kVector) {
        if (c / kVector % 8 != lane) continue;
        const uint4 x = *reinterpret_cast<const uint4*>(o + c), y = *reinterpret_cast<const uint4*>(g + c);
        const T *a = reinterpret_cast<const T*>(&x), *b = reinterpret_cast<const T*>(&y);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sum += to_float(a[i]) * to_float(b[i]);
      }
    }
    for (c += lane; c < p.head_dim; c += 8) sum += to_float(o[c]) * to_float(g[c]);
  }
  for (int m = 4; m > 0; m /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, m);
  if (!there || lane > 0) return;
  const std::int64_t at = static_cast<std::int64_t>(head) * p.queries.total + token;
  const float lse = p.lse[at];
  p.stats[at] = make_float2(lse == -INFINITY ? INFINITY : lse * kLog2e, sum);
}

// s = scores, dp = dP → s = P∘F, dp = dS.
__device__ void gradients(const AttentionProblem& p, const HeadPlace& at, int first, int key, float (&s)[4][4], float (&dp)[4][4]) {
  const Thread t;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = first + t.y + 16 * i;
    const std::int64_t row = static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + query;
    const float lse = query < at.queries ? p.lse[row] : -INFINITY, delta = query < at.queries ? p.stats[row].y : 0.0F;
    float f[4];
    factors(p, at, query, key, f);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float weight = lse == -INFINITY ? 0.0F : expf(s[i][j] - lse);
      s[i][j] = weight * f[j];
      dp[i][j] = s[i][j] * dp[i][j] - weight * delta;
    }
  }
}

// Grid: key blocks × chunks of 64 columns × kv heads × sequences.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_keys_general(AttentionProblem p, int blocks, int chunks) {
  SHARED_OF_LAUNCH(memory, float);
  float *q_tile = memory, *k_tile = memory + kSize, *v_tile = memory + 2 * kSize, *g_tile = memory + 3 * kSize,
        *turned = memory + 4 * kSize;
  const int place = static_cast<int>(blockIdx.x) / (blocks * chunks), part = static_cast<int>(blockIdx.x) % (blocks * chunks);
  const int group = p.heads / p.kv_heads, sequence = place / p.kv_heads, kv_head = place % p.kv_heads;
  const int key = part / chunks * kSide, chunk = part % chunks, d = p.head_dim;
  float dk[4][4], dv[4][4];
  zero(dk), zero(dv);
  bool there = false;
  int k_begin = 0, keys = 0;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadPlace at(p, sequence, head);
    k_begin = at.k_begin, keys = min(kSide, at.keys - key);
    if (keys <= 0) return;
    const KeyRange queries = at.seen_by(p, key, key + keys - 1);
    const auto k_row = [&](int r) { return static_cast<std::int64_t>(at.k_begin) + key + r; };
    for (int first = queries.begin / kSide * kSide; first < queries.end; first += kSide) {
      const auto q_row = [&](int r) { return static_cast<std::int64_t>(at.q_begin) + first + r; };
      const int rows = min(kSide, at.queries - first);
      float s[4][4], dp[4][4];
      dot_rows<T>(Operand{p.q, q_row, rows, static_cast<std::int64_t>(head) * d, q_tile, false},
                  Operand{p.k, k_row, keys, static_cast<std::int64_t>(kv_head) * d, k_tile, there}, d, chunk, s);
      dot_rows<T>(Operand{p.dout, q_row, rows, static_cast<std::int64_t>(head) * d, g_tile, false},
                  Operand{p.v, k_row, keys, static_cast<std::int64_t>(kv_head) * d, v_tile, there}, d, chunk, dp);
      there = true;
      finish_scores(p, at, first, key, s);
      gradients(p, at, first, key, s, dp);
      store_tile(s, turned, true);
      __syncthreads();
      multiply(turned, g_tile, dv);
      __syncthreads();
      store_tile(dp, turned, true);
      __syncthreads();
      multiply(turned, q_tile, dk);
    }
  }
  const std::int64_t column = static_cast<std::int64_t>(kv_head) * d + chunk * kSide;
  const int columns = min(kSide, d - chunk * kSide);
  if (p.dk.data) write_tile<T>(dk, p.dk, k_begin + key, keys, column, columns, p.scale);
  if (p.dv.data) write_tile<T>(dv, p.dv, k_begin + key, keys, column, columns, 1.0F);
}

// s = P∘F and dp = dS of 64 queries and 64 keys.
template <class T>
__device__ void tile_gradients(const AttentionProblem& p, const HeadPlace& at, int first, int key, int chunk, bool there, float* tiles,
                               float (&s)[4][4], float (&dp)[4][4]) {
  const int d = p.head_dim, rows = at.queries - first, keys = at.keys - key;
  const auto q_row = [&](int r) { return static_cast<std::int64_t>(at.q_begin) + first + r; };
  const auto k_row = [&](int r) { return static_cast<std::int64_t>(at.k_begin) + key + r; };
  const std::int64_t column = static_cast<std::int64_t>(at.head) * d, kv_column = static_cast<std::int64_t>(at.kv_head) * d;
  dot_rows<T>(Operand{p.dout, q_row, rows, column, tiles, there}, Operand{p.v, k_row, keys, kv_column, tiles + kSize, false}, d, chunk, dp);
  dot_rows<T>(Operand{p.q, q_row, rows, column, tiles + 2 * kSize, there}, Operand{p.k, k_row, keys, kv_column, tiles + 3 * kSize, false},
              d, chunk, s);
  finish_scores(p, at, first, key, s);
  gradients(p, at, first, key, s, dp);
}

// Grid: query blocks × chunks of 64 columns × heads × sequences.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_queries_general(AttentionProblem p, int blocks, int chunks) {
  SHARED_OF_LAUNCH(memory, float);
  float* ds = memory + 4 * kSize;
  const int place = static_cast<int>(blockIdx.x) / (blocks * chunks), part = static_cast<int>(blockIdx.x) % (blocks * chunks);
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = (blocks - 1 - part / chunks) * kSide, chunk = part % chunks, d = p.head_dim;
  const int rows = min(kSide, at.queries - first);
  if (rows <= 0) return;
  float dq[4][4];
  zero(dq);
  const int begin = at.visible(p, first).begin / kSide * kSide, end = at.visible(p, first + rows - 1).end;
  for (int key = begin; key < end; key += kSide) {
    float s[4][4], dp[4][4];
    tile_gradients<T>(p, at, first, key, chunk, key > begin, memory, s, dp);
    store_tile(dp, ds, false);
    __syncthreads();
    multiply(ds, memory + 3 * kSize, dq);
  }
  write_tile<T>(dq, p.dq, at.q_begin + first, rows, static_cast<std::int64_t>(at.head) * d + chunk * kSide, min(kSide, d - chunk * kSide),
                p.scale);
}

// How the elements of a bias' gradient are shared out: tiles of queries and keys that it tells apart, and the sequences in `parts`
// ranges. The gradients of a part are added to `to`, or, where sequences share the bias, written to the part's own dense copy.
struct BiasParts {
  float* to;
  BiasStrides strides;
  int q_blocks = 1, k_blocks = 1, heads = 1, parts = 1;  // blocks and heads: 1 where the bias repeats
  std::int64_t part_size = 0;                            // of a copy; 0: no copies
};

// Grid: tiles × heads × parts.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_bias_gradient(AttentionProblem p, BiasParts b) {
  SHARED_OF_LAUNCH(memory, float);
  float* total = memory + 4 * kSize;
  const Thread t;
  int i = static_cast<int>(blockIdx.x);
  const int k_block = i % b.k_blocks, q_block = (i /= b.k_blocks) % b.q_blocks, head = (i /= b.q_blocks) % b.heads, part = i / b.heads;
  const BiasStrides& strides = b.strides;
  const int first_sequence = static_cast<int>(static_cast<std::int64_t>(part) * p.queries.count / b.parts);
  const int end_sequence = static_cast<int>(static_cast<std::int64_t>(part + 1) * p.queries.count / b.parts);
  float sum[4][4];
  zero(sum);
  for (int sequence = first_sequence; sequence < end_sequence; ++sequence) {
    for (int h = head; h < (strides.head == 0 ? p.heads : head + 1); ++h) {
      const HeadPlace at(p, sequence, h);
      for (int first = q_block * kSide; first < (strides.query == 0 ? at.queries : min(at.queries, (q_block + 1) * kSide));
           first += kSide) {
        for (int key = k_block * kSide; key < (strides.key == 0 ? at.keys : min(at.keys, (k_block + 1) * kSide)); key += kSide) {
          float s[4][4], dp[4][4];
          tile_gradients<T>(p, at, first, key, 0, false, memory, s, dp);
#pragma unroll
          for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c) sum[r][c] += dp[r][c];
        }
      }
    }
  }
  store_tile(sum, total, false);
  __syncthreads();
  // Rows and columns that the bias does not tell apart are summed.
  if (strides.key == 0) {
    if (threadIdx.x < kSide)
      for (int c = 1; c < kSide; ++c) total[threadIdx.x * kStride] += total[threadIdx.x * kStride + c];
    __syncthreads();
  }
  if (strides.query == 0) {
    if (threadIdx.x < kSide)
      for (int r = 1; r < kSide; ++r) total[threadIdx.x] += total[r * kStride + threadIdx.x];
    __syncthreads();
  }
  const int rows = strides.query == 0 ? 1 : min(kSide, p.queries.longest - q_block * kSide);
  const int columns = strides.key == 0 ? 1 : min(kSide, p.keys.longest - k_block * kSide);
  const bool own = b.part_size > 0;
  float* to = b.to + (own ? part * b.part_size : part * strides.sequence);
  for (int e = static_cast<int>(threadIdx.x); e < rows * columns; e += kThreads) {
    const int r = e / columns, c = e % columns;
    float& x = to[strides.offset(0, head, q_block * kSide + r, k_block * kSide + c)];
    x = own ? total[r * kStride + c] : x + total[r * kStride + c];
  }
}

// One head's sums over diagonals, of a part of all (sequence, query block) pairs; `to` [parts, heads, columns].
template <class T>
__global__ void __launch_bounds__(kThreads) attention_relative_gradient(AttentionProblem p, int q_blocks, int parts, float* to) {
  SHARED_OF_LAUNCH(memory, float);
  float* ds = memory + 4 * kSize;
  const int head = static_cast<int>(blockIdx.x) % p.heads, part = static_cast<int>(blockIdx.x) / p.heads;
  const int columns = 2 * p.relative_longest - 1;
  to += static_cast<std::int64_t>(blockIdx.x) * columns;
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) to[c] = 0.0F;
  const std::int64_t items = static_cast<std::int64_t>(p.queries.count) * q_blocks;
  for (std::int64_t item = part * items / parts; item < (part + 1) * items / parts; ++item) {
    const HeadPlace at(p, static_cast<int>(item / q_blocks), head);
    const int first = static_cast<int>(item % q_blocks) * kSide;
    if (first >= at.queries) continue;
    const int end = at.visible(p, min(first + kSide, at.queries) - 1).end;
    for (int key = at.visible(p, first).begin / kSide * kSide; key < end; key += kSide) {
      float s[4][4], dp[4][4];
      tile_gradients<T>(p, at, first, key, 0, false, memory, s, dp);
      store_tile(dp, ds, false);  // 0 where there is no query or key
      __syncthreads();
      const int diagonal = static_cast<int>(threadIdx.x) - (kSide - 1);  // key - query within the tile
      const int column = key + diagonal - at.position(first) + p.relative_longest - 1;
      if (diagonal < kSide && column >= 0 && column < columns) {
        float sum = 0.0F;
        for (int r = max(0, -diagonal); r < min(kSide, kSide - diagonal); ++r) sum += ds[r * kStride + r + diagonal];
        to[column] += sum;
      }
      __syncthreads();
    }
  }
}

// to[r][c] += Σ_i parts[i][r][c], in order.
__global__ void __launch_bounds__(kThreads)
    attention_add_parts(const float* from, int parts, std::int64_t size, std::int64_t columns, float* to, std::int64_t stride) {
  const std::int64_t e = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= size) return;
  float& x = to[e / columns * stride + e % columns];
  float sum = x;
  for (int i = 0; i < parts; ++i) sum += from[i * size + e];
  x = sum;
}

unsigned tile_count(int n) { return static_cast<unsigned>((n + kSide - 1) / kSide); }
constexpr std::size_t kFiveTiles = 5 * kSize * sizeof(float);

}  // namespace

void attention_stats(Context& ctx, DType dtype, const AttentionProblem& p) {
  const std::int64_t pairs = static_cast<std::int64_t>(p.queries.total) * p.heads;
  visit_device_float("attention", dtype, [&]<class T>() {
    launch(ctx, "attention_stats", attention_stats_general<T>, dim3(static_cast<unsigned>(blocks_of(pairs, kThreads / 8))), dim3(kThreads),
           0, p);
  });
}

void general_attention_backward(Context& ctx, DType dtype, const AttentionProblem& p) {
  const unsigned chunks = tile_count(p.head_dim), q_blocks = tile_count(p.queries.longest), k_blocks = tile_count(p.keys.longest);
  const unsigned sequences = static_cast<unsigned>(p.queries.count);
  const unsigned k_grid = k_blocks * chunks * static_cast<unsigned>(p.kv_heads) * sequences;
  const unsigned q_grid = q_blocks * chunks * static_cast<unsigned>(p.heads) * sequences;
  visit_device_float("attention", dtype, [&]<class T>() {
    if ((p.dk.data || p.dv.data))
      launch(ctx, "attention_backward", attention_keys_general<T>, dim3(k_grid), dim3(kThreads), kFiveTiles, p, static_cast<int>(k_blocks),
             static_cast<int>(chunks));
    if (p.dq.data)
      launch(ctx, "attention_backward", attention_queries_general<T>, dim3(q_grid), dim3(kThreads), kFiveTiles, p,
             static_cast<int>(q_blocks), static_cast<int>(chunks));
  });
}

void attention_bias_backward(Context& ctx, DType dtype, const AttentionProblem& p, Tensor& dbias, Tensor& drelative) {
  if (p.queries.total == 0 || p.keys.total == 0) return;
  const int q_blocks = static_cast<int>(tile_count(p.queries.longest)), k_blocks = static_cast<int>(tile_count(p.keys.longest));
  constexpr std::int64_t kBlocks = 1024, kLargest = std::int64_t{1} << 26;  // blocks of threads worth having, numbers of scratch memory
  const auto add_parts = [&](const Tensor& from, std::int64_t columns, Tensor& to) {
    const std::int64_t size = to.numel(), parts = from.numel() / size;
    launch(ctx, "attention_backward", attention_add_parts, dim3(static_cast<unsigned>(blocks_of(size, kThreads))), dim3(kThreads), 0,
           values_of<float>(from), static_cast<int>(parts), size, columns, mutable_values_of<float>(to), to.row_stride());
  };
  if (dbias.defined()) {
    const std::int64_t size = dbias.numel(), columns = dbias.rank() == 0 ? 1 : dbias.cols();
    BiasParts b{.to = mutable_values_of<float>(dbias), .strides = BiasStrides(dbias, dbias.row_stride()), .parts = p.queries.count};
    b.q_blocks = b.strides.query == 0 ? 1 : q_blocks;
    b.k_blocks = b.strides.key == 0 ? 1 : k_blocks;
    b.heads = b.strides.head == 0 ? 1 : p.heads;
    Tensor scratch;
    if (b.strides.sequence == 0 && p.queries.count > 1) {
      const std::int64_t tiles = std::int64_t{b.q_blocks} * b.k_blocks * b.heads;
      b.parts = static_cast<int>(std::clamp<std::int64_t>(std::min(kBlocks / tiles, kLargest / size), 1, p.queries.count));
      b.part_size = size;
      b.strides = BiasStrides(dbias, columns);  // dense
      scratch = Tensor::empty(ctx, {b.parts, size});
      b.to = mutable_values_of<float>(scratch);
    }
    visit_device_float("attention", dtype, [&]<class T>() {
      launch(ctx, "attention_backward", attention_bias_gradient<T>,
             dim3(static_cast<unsigned>(b.q_blocks * b.k_blocks * b.heads * b.parts)), dim3(kThreads), kFiveTiles, p, b);
    });
    if (scratch.defined()) add_parts(scratch, columns, dbias);
  }
  if (drelative.defined()) {
    const std::int64_t size = drelative.numel(), items = std::int64_t{p.queries.count} * q_blocks;
    const int parts = static_cast<int>(std::clamp<std::int64_t>(std::min(kBlocks / p.heads, kLargest / size), 1, items));
    Tensor scratch = Tensor::empty(ctx, {parts, size});
    visit_device_float("attention", dtype, [&]<class T>() {
      launch(ctx, "attention_backward", attention_relative_gradient<T>, dim3(static_cast<unsigned>(p.heads * parts)), dim3(kThreads),
             kFiveTiles, p, q_blocks, parts, mutable_values_of<float>(scratch));
    });
    add_parts(scratch, drelative.cols(), drelative);
  }
}

}  // namespace transformer
