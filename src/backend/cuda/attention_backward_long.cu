// Attention backward in bfloat16 for long sequences, in two kernels without scratch memory: the gradients of the keys and values by
// blocks of 64 keys, walking over the queries, and those of the queries by blocks of 64 queries, walking over the keys. The scores are
// computed in both; what a block sums it sums alone, in one order.

#include "backend/cuda/attention_backward.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

constexpr int kLongThreads = 128, kLongRows = 64;
template <int D>
constexpr int kLongTile = kLongRows* kStride<D> * 2;  // bytes
template <int D>
constexpr int kLongBlocks = D <= 64 ? 3 : 2;  // on a multiprocessor

// Grid: key blocks × key-value heads × sequences.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>) attention_backward_keys(AttentionProblem p, int blocks) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const int place = static_cast<int>(blockIdx.x) / blocks, first_key = static_cast<int>(blockIdx.x) % blocks * kLongRows;
  const int sequence = place / p.kv_heads, kv_head = place % p.kv_heads, shared_by = p.heads / p.kv_heads, warp = warp_id();
  HeadPlace at(p, sequence, kv_head * shared_by);
  if (first_key >= at.keys) return;
  const std::int64_t kv_column = static_cast<std::int64_t>(kv_head) * p.head_dim;
  const uint32_t k_tile = shared_address(bytes), v_tile = k_tile + kLongTile<D>, stages = v_tile + kLongTile<D>;
  unsigned char* const after = bytes + 6 * kLongTile<D>;
  const auto stats_of = [&](int stage) { return reinterpret_cast<float2*>(after) + stage * kLongRows; };
  const auto kept_of = [&](int stage) { return reinterpret_cast<uint32_t*>(after + 2 * kLongRows * 8) + stage * kLongRows * 2; };
  const bool dropout = p.dropout.threshold > 0;

  // Walks over all pairs of a head and a block of queries.
  const KeyRange seen_by = at.seen_by(p, first_key, min(first_key + kLongRows, at.keys) - 1);
  const int first_query = seen_by.begin / kLongRows * kLongRows;
  const int q_blocks = max(0, (seen_by.end - first_query + kLongRows - 1) / kLongRows), steps = q_blocks * shared_by;
  const auto start = [&](int step) {  // brings in what a step needs
    const int stage = step % 2, query = first_query + step % q_blocks * kLongRows;
    at.head = kv_head * shared_by + step / q_blocks;
    const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim;
    const uint32_t q_tile = stages + stage * 2 * kLongTile<D>;
    load_rows<D>(q_tile, kLongRows, p.q, at.q_begin + query, nullptr, at.queries - query, column, p.head_dim);
    load_rows<D>(q_tile + kLongTile<D>, kLongRows, p.dout, at.q_begin + query, nullptr, at.queries - query, column, p.head_dim);
    if (threadIdx.x < kLongRows) {
      const int r = static_cast<int>(threadIdx.x);
      const bool there = query + r < at.queries;
      copy_async_8(shared_address(stats_of(stage) + r),
                   p.stats + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + (there ? query + r : 0), there);
    }
    commit_copies();
    if (dropout) draw_kept(p, at, query, kLongRows, first_key / 64, 1, kept_of(stage));
  };

  KeySums<D, D <= 64> sums;
  sums.begin();
  load_rows<D>(k_tile, kLongRows, p.k, at.k_begin + first_key, nullptr, at.keys - first_key, kv_column, p.head_dim);
  load_rows<D>(v_tile, kLongRows, p.v, at.k_begin + first_key, nullptr, at.keys - first_key, kv_column, p.head_dim);
  commit_copies();
  if (steps > 0) start(0);
  const int key = first_key + warp * 16;
  for (int step = 0; step < steps; ++step) {
    wait_for_copies();
    __syncthreads();
    if (step == 0) sums.hold(k_tile, v_tile, warp * 16);
    if (step + 1 < steps) start(step + 1);
    at.head = kv_head * shared_by + step / q_blocks;
    const int block_query = first_query + step % q_blocks * kLongRows, stage = step % 2;
    const uint32_t q_tile = stages + stage * 2 * kLongTile<D>;
    if (key >= at.keys) continue;
    for (int r = 0; r < kLongRows && block_query + r < at.queries; r += 16) {
      const Sight sight(p, at, block_query + r, key);
      if (!sight.any) continue;
      const StepTiles tiles{
          q_tile, q_tile + kLongTile<D>, k_tile, v_tile, r, warp * 16, stats_of(stage) + r, dropout ? kept_of(stage) + r * 2 : nullptr, 2};
      sums.template add<kBiased>(p, at, tiles, block_query + r, key, !sight.all);
    }
  }
  wait_for_copies();
  __syncthreads();
  if (key >= at.keys) return;
  __nv_bfloat16* const rows = reinterpret_cast<__nv_bfloat16*>(bytes) + warp * 16 * kStride<D>;
  if (p.dk.data) write_rows<D>(sums.dk, p.scale, p.scale, rows, p.dk, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
  if (p.dv.data) write_rows<D>(sums.dv, 1.0F, 1.0F, rows, p.dv, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
}

// Grid: query blocks × heads × sequences.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>) attention_backward_queries(AttentionProblem p, int blocks) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const int place = static_cast<int>(blockIdx.x) / blocks;
  const int first = (blocks - 1 - static_cast<int>(blockIdx.x) % blocks) * kLongRows;  // causal: the long ones first
  const HeadPlace at(p, place / p.heads, place % p.heads);
  if (first >= at.queries) return;
  const int lane = lane_id(), warp = warp_id();
  const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim,
                     kv_column = static_cast<std::int64_t>(at.kv_head) * p.head_dim;
  const uint32_t q_tile = shared_address(bytes), g_tile = q_tile + kLongTile<D>, stages = g_tile + kLongTile<D>;
  const int begin = at.visible(p, first).begin / 64, end = (at.visible(p, min(first + kLongRows, at.queries) - 1).end + 63) / 64;
  const auto start = [&](int b) {
    const uint32_t k_tile = stages + (b - begin) % 2 * 2 * kLongTile<D>;
    load_rows<D>(k_tile, 64, p.k, at.k_begin + b * 64, nullptr, at.keys - b * 64, kv_column, p.head_dim);
    load_rows<D>(k_tile + kLongTile<D>, 64, p.v, at.k_begin + b * 64, nullptr, at.keys - b * 64, kv_column, p.head_dim);
    commit_copies();
  };
  load_rows<D>(q_tile, kLongRows, p.q, at.q_begin + first, nullptr, at.queries - first, column, p.head_dim);
  load_rows<D>(g_tile, kLongRows, p.dout, at.q_begin + first, nullptr, at.queries - first, column, p.head_dim);
  commit_copies();
  if (begin < end) start(begin);

  const int query = first + warp * 16;
  const int row0 = min(query + lane / 4, at.queries - 1), row1 = min(query + lane / 4 + 8, at.queries - 1);
  const float2* const stats = p.stats + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin;
  const float2 stats0 = stats[row0], stats1 = stats[row1];
  const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
  constexpr bool kHeld = D <= 64;
  Fragment q[kHeld ? D / 16 : 1], g[kHeld ? D / 16 : 1];
  float dq[D / 8][4];
  zero(dq);
  const float to_log2 = p.scale * kLog2e;
  for (int b = begin; b < end; ++b) {
    wait_for_copies();
    __syncthreads();
    if (b + 1 < end) start(b + 1);
    if constexpr (kHeld) {
      if (b == begin) {
#pragma unroll
        for (int c = 0; c < D / 16; ++c)
          q[c] = left(q_tile, kStride<D>, warp * 16, 16 * c), g[c] = left(g_tile, kStride<D>, warp * 16, 16 * c);
      }
    }
    if (query >= at.queries) continue;
    const uint32_t k_tile = stages + (b - begin) % 2 * 2 * kLongTile<D>, v_tile = k_tile + kLongTile<D>;
    uint32_t bits0 = ~0U, bits1 = ~0U;
    if (p.dropout.threshold > 0) {
      bits0 = kept_bits(p.dropout, at.random_group(p, row0) + static_cast<std::uint64_t>(b));
      bits1 = kept_bits(p.dropout, at.random_group(p, row1) + static_cast<std::uint64_t>(b));
    }
#pragma unroll 2
    for (int n = 0; n < 4; ++n) {
      const int key = b * 64 + n * 16;
      const Sight sight(p, at, query, key);
      if (!sight.any) continue;
      float s[2][4], dp[2][4];
      zero(s), zero(dp);
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        if constexpr (kHeld) {
          multiply_add(s[0], s[1], q[c], right(k_tile, kStride<D>, 16 * n, 16 * c));
          multiply_add(dp[0], dp[1], g[c], right(v_tile, kStride<D>, 16 * n, 16 * c));
        } else {
          multiply_add(s[0], s[1], left(q_tile, kStride<D>, warp * 16, 16 * c), right(k_tile, kStride<D>, 16 * n, 16 * c));
          multiply_add(dp[0], dp[1], left(g_tile, kStride<D>, warp * 16, 16 * c), right(v_tile, kStride<D>, 16 * n, 16 * c));
        }
      }
#pragma unroll
      for (int f = 0; f < 2; ++f)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int j = key + 8 * f + lane % 4 * 2 + e % 2;
          const KeyRange seen = e < 2 ? seen0 : seen1;
          const bool sees = sight.all || (j >= seen.begin && j < seen.end);
          float score = s[f][e] * to_log2;
          if constexpr (kBiased) score += sees ? at.added(p, e < 2 ? row0 : row1, j) * kLog2e : 0.0F;
          const float weight = sees ? exp2_of(score - (e < 2 ? stats0.x : stats1.x)) : 0.0F;
          const bool kept = (e < 2 ? bits0 : bits1) >> (4 * n + 2 * f + e % 2) & 1U;
          dp[f][e] = weight * ((kept ? dp[f][e] * p.dropout.keep : 0.0F) - (e < 2 ? stats0.y : stats1.y));
        }
      const Fragment ds = as_left(dp[0], dp[1]);
#pragma unroll
      for (int c = 0; c < D / 16; ++c) multiply_add(dq[2 * c], dq[2 * c + 1], ds, right_as_it_lies(k_tile, kStride<D>, 16 * n, 16 * c));
    }
  }
  wait_for_copies();
  __syncthreads();
  if (query >= at.queries) return;
  write_rows<D>(dq, p.scale, p.scale, reinterpret_cast<__nv_bfloat16*>(bytes) + warp * 16 * kStride<D>, p.dq, at.q_begin + query,
                at.queries - query, column, p.head_dim);
}

}  // namespace

bool mma_attention_backward(Context& ctx, const AttentionProblem& p) {
  if (!takes(p)) return false;
  const int q_blocks = static_cast<int>(blocks_of(p.queries.longest, kLongRows)),
            k_blocks = static_cast<int>(blocks_of(p.keys.longest, kLongRows));
  with_width(p, [&]<int D, bool kBiased>() {
    constexpr std::size_t kTiles = 6 * kLongTile<D>, kBeside = 2 * kLongRows * (8 + 8);
    if (p.dk.data || p.dv.data)
      launch(ctx, "attention_backward", attention_backward_keys<D, kBiased>,
             dim3(static_cast<unsigned>(k_blocks * p.kv_heads * p.keys.count)), dim3(kLongThreads), kTiles + kBeside, p, k_blocks);
    if (p.dq.data)
      launch(ctx, "attention_backward", attention_backward_queries<D, kBiased>,
             dim3(static_cast<unsigned>(q_blocks * p.heads * p.queries.count)), dim3(kLongThreads), kTiles, p, q_blocks);
  });
  return true;
}

}  // namespace transformer
