// Attention backward in bfloat16 for long sequences, in two kernels: first the gradients of the queries by blocks of 64 queries, walking
// over the keys, which also leaves p.stats, then those of the keys and values by blocks of 64 keys, walking over the queries. The scores
// are computed in both; what a warpgroup sums it sums alone, in one order. See attention_general_backward.cu for the formulas.

#include <algorithm>

#include "backend/cuda/attention_products.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

using namespace mma;

constexpr int kLongThreads = 128;  // a warpgroup
template <int D>
constexpr int kLongBlocks = D <= 64 ? 3 : 2;  // on a multiprocessor

// Grid: key blocks × key-value heads × sequences. Scores stand with the keys as rows. kept_keys [rows of scores, groups]: null without
// dropout.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>)
    attention_backward_keys(AttentionProblem p, int blocks, const uint2* kept_keys) {
  SHARED_OF_LAUNCH(bytes, __align__(1024) unsigned char);
  const int place = static_cast<int>(blockIdx.x) / blocks, first_key = static_cast<int>(blockIdx.x) % blocks * 64;
  const int sequence = place / p.kv_heads, kv_head = place % p.kv_heads, shared_by = p.heads / p.kv_heads;
  HeadPlace at(p, sequence, kv_head * shared_by);
  if (first_key >= at.keys) return;
  const int lane = lane_id(), row = warp_id() * 16, last_key = min(first_key + 64, at.keys) - 1;
  const std::int64_t kv_column = static_cast<std::int64_t>(kv_head) * p.head_dim;
  const uint32_t k_tile = shared_address(bytes), v_tile = k_tile + kTileBytes<D>;
  const auto q_tile_of = [&](int stage) { return k_tile + static_cast<uint32_t>((2 + 2 * stage) * kTileBytes<D>); };
  const auto stats_of = [&](int stage) { return reinterpret_cast<float2*>(bytes + 6 * kTileBytes<D>) + stage * 64; };
  const auto kept_of = [&](int stage) { return reinterpret_cast<uint32_t*>(bytes + 6 * kTileBytes<D> + 2 * 64 * 8) + stage * 64 * 2; };

  // A step is a head that shares the keys and 64 queries of which some see some of the keys.
  const KeyRange seen_by = at.seen_by(p, first_key, last_key);
  const int first_query = seen_by.begin / 64 * 64, q_blocks = max(0, (seen_by.end - first_query + 63) / 64), steps = q_blocks * shared_by;
  const TileCopy<D, kLongThreads> copy(p.head_dim);
  const auto start = [&](int step) {  // brings in what a step needs
    const int stage = step % 2, query = first_query + step % q_blocks * 64;
    at.head = kv_head * shared_by + step / q_blocks;
    const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim, token = at.q_begin + query;
    copy(q_tile_of(stage), copy.source(p.q, token, column), at.queries - query);
    copy(q_tile_of(stage) + kTileBytes<D>, copy.source(p.dout, token, column), at.queries - query);
    if (threadIdx.x < 64) {
      const int r = static_cast<int>(threadIdx.x);
      const bool there = query + r < at.queries;
      const int i = there ? query + r : 0;
      copy_async_8(shared_address(stats_of(stage) + r), p.stats + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + i,
                   there);
      if (kept_keys) copy_async_8(shared_address(kept_of(stage) + 2 * r), kept_keys + at.random_group(p, i) + first_key / 64, there);
    }
    commit_copies();
  };

  float dk[D / 8][4], dv[D / 8][4];
  zero(dk), zero(dv);
  copy(k_tile, copy.source(p.k, at.k_begin + first_key, kv_column), at.keys - first_key);
  copy(v_tile, copy.source(p.v, at.k_begin + first_key, kv_column), at.keys - first_key);
  commit_copies();
  if (steps > 0) start(0);
  const int key = first_key + row, shift = 4 * warp_id() + lane / 4 % 4;  // the warp's first key, and where this lane's bits are
  const float to_log2 = p.scale * kLog2e, keep = p.dropout.keep;

  // The queries that see this lane's two keys.
  const int key0 = key + lane / 4, key1 = key0 + 8;
  const KeyRange seen0 = key0 < at.keys ? at.seen_by(p, key0, key0) : KeyRange{0, 0};
  const KeyRange seen1 = key1 < at.keys ? at.seen_by(p, key1, key1) : KeyRange{0, 0};
  // Scores of 64 queries: with what is added to them, and -inf where one does not see a key.
  const auto adjust = [&](int query, float(&s)[8][4]) {
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = query + 8 * n + lane % 4 * 2 + e % 2;
        const KeyRange seen = e < 2 ? seen0 : seen1;
        const bool sees = i >= seen.begin && i < seen.end;
        if constexpr (kBiased) s[n][e] = sees ? s[n][e] * to_log2 + at.added(p, i, e < 2 ? key0 : key1) * kLog2e : -INFINITY;
        else if (!sees) s[n][e] = -INFINITY;
      }
  };
  // Puts zeros where a key is dropped.
  const auto drop = [&](const uint32_t* kept, float(&x)[8][4]) {
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const uint32_t bits = kept[(8 * n + lane % 4 * 2 + e) * 2 + lane / 16] >> shift;
        if ((bits & 1U) == 0) x[n][e] = 0.0F;
        if ((bits >> 16 & 1U) == 0) x[n][e + 2] = 0.0F;
      }
  };

  for (int step = 0; step < steps; ++step) {
    finish_copies();
    __syncthreads();
    if (step + 1 < steps) start(step + 1);
    at.head = kv_head * shared_by + step / q_blocks;
    const int query = first_query + step % q_blocks * 64, stage = step % 2;
    const uint32_t q_tile = q_tile_of(stage), g_tile = q_tile + kTileBytes<D>;
    float s[8][4], dp[8][4];
    begin_products();
    product_of_rows<D>(s, k_tile, q_tile);
    product_of_rows<D>(dp, v_tile, g_tile);
    commit_products();
    wait_for_products();
    pin(s), pin(dp);
    const KeyRange low = at.visible(p, query), high = at.visible(p, min(query + 63, at.queries - 1));
    if (kBiased || first_key < high.begin || first_key + 64 > low.end || query + 64 > at.queries) adjust(query, s);
    // s → P∘F but for a factor, dp → dS
    if (kept_keys) drop(kept_of(stage), dp);
    const float factor = kBiased ? 1.0F : to_log2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float4 stats = *reinterpret_cast<const float4*>(stats_of(stage) + 8 * n + lane % 4 * 2);  // of this lane's two queries
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = exp2_of(s[n][e] * factor - (e % 2 == 0 ? stats.x : stats.z));
        dp[n][e] = s[n][e] * (dp[n][e] * keep - (e % 2 == 0 ? stats.y : stats.w));
      }
    }
    if (kept_keys) drop(kept_of(stage), s);
    Fragment weights[4], ds[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) weights[n] = as_left(s[2 * n], s[2 * n + 1]), ds[n] = as_left(dp[2 * n], dp[2 * n + 1]);
    begin_products();
    add_product<D>(dv, weights, g_tile);
    add_product<D>(dk, ds, q_tile);
    commit_products();
    wait_for_products();
    pin(dv), pin(dk);
  }
  finish_copies();
  __syncthreads();
  if (p.dk.data) write_tile_rows<D>(dk, p.scale, p.scale, bytes, row, p.dk, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
  if (p.dv.data) write_tile_rows<D>(dv, keep, keep, bytes, row, p.dv, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
}

// For the gradient of the relative bias: dS of 64 queries and 64 keys in shared memory, and the sums of its diagonals; element
// `key + 63 - query` of the sums, counted from the first query and key.
struct Diagonals {
  static constexpr int kStride = 65;
  float *ds, *sums;

  __device__ void add(int key) const {
    __syncthreads();
    const int diagonal = static_cast<int>(threadIdx.x) - 63;
    if (diagonal > 63) return;
    float sum = 0.0F;
    for (int r = max(0, -diagonal); r < min(64, 64 - diagonal); ++r) sum += ds[r * kStride + r + diagonal];
    sums[key + threadIdx.x] += sum;
  }
};

// to [heads, 2·L - 1] += the sums of all query blocks, parts [sequences, heads, blocks, width], along the diagonals, in order.
__global__ void __launch_bounds__(kLongThreads)
    attention_add_diagonals(AttentionProblem p, const float* parts, int blocks, int width, float* to, std::int64_t stride) {
  const int columns = 2 * p.relative_longest - 1, i = static_cast<int>(blockIdx.x) * kLongThreads + static_cast<int>(threadIdx.x);
  if (i >= p.heads * columns) return;
  const int head = i / columns, column = i % columns;
  float sum = to[head * stride + column];
  for (int s = 0; s < p.queries.count; ++s) {
    const HeadPlace at(p, s, head);
    const float* part = parts + (static_cast<std::int64_t>(s) * p.heads + head) * blocks * width;
    for (int query = 0; query < at.queries; query += 64, part += width) {
      const int element = column - (p.relative_longest - 1) + at.position(query) + 63;
      if (element >= 0 && element < width) sum += part[element];
    }
  }
  to[head * stride + column] = sum;
}

// Grid: query blocks × heads × sequences. Scores stand with the queries as rows. kept_keys is written where there is
// dropout. `diagonals`: null, or [grid, width] sums for the gradient of the relative bias.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>)
    attention_backward_queries(AttentionProblem p, int blocks, uint32_t* kept_keys, float* diagonals, int width) {
  SHARED_OF_LAUNCH(bytes, __align__(1024) unsigned char);
  const int place = static_cast<int>(blockIdx.x) / blocks;
  const int first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * 64;  // causal: the long ones first
  const HeadPlace at(p, place / p.heads, place % p.heads);
  if (first >= at.queries) return;
  const int lane = lane_id(), row = warp_id() * 16, last = min(first + 63, at.queries - 1);
  const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim,
                     kv_column = static_cast<std::int64_t>(at.kv_head) * p.head_dim;
  const uint32_t q_tile = shared_address(bytes), g_tile = q_tile + kTileBytes<D>;
  const KeyRange low = at.visible(p, first), high = at.visible(p, last);
  const int begin = low.begin / 64, end = (high.end + 63) / 64;
  const auto k_tile_of = [&](int b) { return q_tile + static_cast<uint32_t>((2 + (b - begin) % 2 * 2) * kTileBytes<D>); };
  const TileCopy<D, kLongThreads> copy(p.head_dim);
  const auto k_source = copy.source(p.k, at.k_begin, kv_column), v_source = copy.source(p.v, at.k_begin, kv_column);
  const auto start = [&](int b) {
    copy(k_tile_of(b), k_source.rows_on(b * 64), at.keys - b * 64);
    copy(k_tile_of(b) + kTileBytes<D>, v_source.rows_on(b * 64), at.keys - b * 64);
    commit_copies();
  };
  const uint32_t out_tile = k_tile_of(begin + 1);  // until the second keys come
  copy(q_tile, copy.source(p.q, at.q_begin + first, column), at.queries - first);
  copy(g_tile, copy.source(p.dout, at.q_begin + first, column), at.queries - first);
  copy(out_tile, copy.source(p.out, at.q_begin + first, column), at.queries - first);
  commit_copies();
  if (begin < end) start(begin);

  // This lane's rows; one beyond the end stands for the last query, and is not written.
  const int row0 = min(first + row + lane / 4, at.queries - 1), row1 = min(first + row + lane / 4 + 8, at.queries - 1);
  const std::int64_t stats_at = static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin;
  finish_copies();
  __syncthreads();
  const auto stats_of = [&](int r, int query) {  // four lanes have a row together
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < D / 32; ++i)
      sum += dot_of_pieces(bytes + (out_tile - q_tile), bytes + kTileBytes<D>, piece_at(r, (lane % 4 + 4 * i) * 8));
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    const float lse = p.lse[stats_at + query];
    const float2 stats = make_float2(lse == -INFINITY ? INFINITY : lse * kLog2e, sum);
    if (lane % 4 == 0 && first + r == query) p.stats[stats_at + query] = stats;
    return stats;
  };
  const float2 stats0 = stats_of(row + lane / 4, row0), stats1 = stats_of(row + lane / 4 + 8, row1);
  const float to_log2 = p.scale * kLog2e, keep = p.dropout.keep;
  float dq[D / 8][4];
  zero(dq);
  float* const after = reinterpret_cast<float*>(bytes + 6 * kTileBytes<D>);
  const Diagonals relative{after, after + 64 * Diagonals::kStride};
  if (kBiased && diagonals)
    for (int i = static_cast<int>(threadIdx.x); i < width; i += kLongThreads) relative.sums[i] = 0.0F;

  // Scores of 64 keys: with what is added to them, and -inf where a row does not see a key.
  const auto adjust = [&](int key, float(&s)[8][4]) {
    const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = key + 8 * n + lane % 4 * 2 + e % 2;
        const KeyRange seen = e < 2 ? seen0 : seen1;
        const bool sees = j >= seen.begin && j < seen.end;
        if constexpr (kBiased) s[n][e] = sees ? s[n][e] * to_log2 + at.added(p, e < 2 ? row0 : row1, j) * kLog2e : -INFINITY;
        else if (!sees) s[n][e] = -INFINITY;
      }
  };

  for (int b = begin; b < end; ++b) {
    finish_copies();
    __syncthreads();
    if (b + 1 < end) start(b + 1);
    const int key = b * 64;
    const uint32_t k_tile = k_tile_of(b);
    float s[8][4], dp[8][4];
    begin_products();
    product_of_rows<D>(s, q_tile, k_tile);
    product_of_rows<D>(dp, g_tile, k_tile + kTileBytes<D>);
    commit_products();
    wait_for_products();
    pin(s), pin(dp);
    if (kept_keys) {
      const std::uint64_t group0 = at.random_group(p, row0) + static_cast<std::uint64_t>(b);
      const std::uint64_t group1 = at.random_group(p, row1) + static_cast<std::uint64_t>(b);
      uint32_t kept0 = drop_row<0>(p, group0, dp), kept1 = drop_row<2>(p, group1, dp);
      kept0 |= __shfl_xor_sync(0xFFFFFFFFU, kept0, 1), kept1 |= __shfl_xor_sync(0xFFFFFFFFU, kept1, 1);
      if (lane % 2 == 0) kept_keys[group0 * 2 + lane % 4 / 2] = kept0, kept_keys[group1 * 2 + lane % 4 / 2] = kept1;
    }
    if (kBiased || key < high.begin || key + 64 > low.end) adjust(key, s);
    const float factor = kBiased ? 1.0F : to_log2;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[n][e] = exp2_of(s[n][e] * factor - (e < 2 ? stats0.x : stats1.x)) * (dp[n][e] * keep - (e < 2 ? stats0.y : stats1.y));
    if (kBiased && diagonals) {
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int r = row + lane / 4 + e / 2 * 8;
          relative.ds[r * Diagonals::kStride + 8 * n + lane % 4 * 2 + e % 2] = first + r < at.queries ? dp[n][e] : 0.0F;
        }
      relative.add(key);
    }
    Fragment ds[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) ds[n] = as_left(dp[2 * n], dp[2 * n + 1]);
    begin_products();
    add_product<D>(dq, ds, k_tile);
    commit_products();
    wait_for_products();
    pin(dq);
  }
  finish_copies();
  __syncthreads();
  if (kBiased && diagonals)
    for (int i = static_cast<int>(threadIdx.x); i < width; i += kLongThreads)
      diagonals[static_cast<std::int64_t>(place * blocks + first / 64) * width + i] = relative.sums[i];
  if (!p.dq.data) return;
  write_tile_rows<D>(dq, p.scale, p.scale, bytes, row, p.dq, at.q_begin + first + row, at.queries - first - row, column, p.head_dim);
}

}  // namespace

bool mma_attention_backward(Context& ctx, const AttentionProblem& p, Tensor& drelative) {
  if (!takes(p)) return false;
  const int q_blocks = static_cast<int>(blocks_of(p.queries.longest, 64)), k_blocks = static_cast<int>(blocks_of(p.keys.longest, 64));
  const int places = p.heads * p.queries.count, width = (k_blocks + 1) * 64;
  Tensor diagonals, kept;
  if (p.dropout.threshold > 0) kept = Tensor::empty(ctx, {std::int64_t{places} * p.queries.longest, p.dropout_groups * 2}, DType::int32);
  if (drelative.defined()) diagonals = Tensor::empty(ctx, {std::int64_t{places} * q_blocks, width});
  bool fits = false;
  with_tile(p, [&]<int D, bool kBiased>() {
    constexpr std::size_t kTiles = 6 * kTileBytes<D>, kBeside = 2 * 64 * (8 + 8);
    const std::size_t beside = diagonals.defined() ? static_cast<std::size_t>(64 * Diagonals::kStride + width) * sizeof(float) : 0;
    fits = kTiles + std::max(beside, kBeside) <= cuda(ctx).most_shared_memory();
    if (!fits) return;
    launch(ctx, "attention_backward", attention_backward_queries<D, kBiased>, dim3(static_cast<unsigned>(q_blocks * places)),
           dim3(kLongThreads), kTiles + beside, p, q_blocks, mutable_values_of<uint32_t>(kept), mutable_values_of<float>(diagonals), width);
    if (p.dk.data || p.dv.data)
      launch(ctx, "attention_backward", attention_backward_keys<D, kBiased>,
             dim3(static_cast<unsigned>(k_blocks * p.kv_heads * p.keys.count)), dim3(kLongThreads), kTiles + kBeside, p, k_blocks,
             values_of<uint2>(kept));
  });
  if (fits && diagonals.defined())
    launch(ctx, "attention_backward", attention_add_diagonals, dim3(static_cast<unsigned>(blocks_of(drelative.numel(), kLongThreads))),
           dim3(kLongThreads), 0, p, values_of<float>(diagonals), q_blocks, width, mutable_values_of<float>(drelative),
           drelative.row_stride());
  return fits;
}

}  // namespace transformer
