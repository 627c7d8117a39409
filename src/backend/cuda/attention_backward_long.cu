// Attention backward in bfloat16 for long sequences, in two kernels without scratch memory: the gradients of the keys and values by
// blocks of 64 keys, walking over the queries, and those of the queries by blocks of 64 queries, walking over the keys. The scores are
// computed in both; what a warpgroup sums it sums alone, in one order. See attention_general_backward.cu for the formulas.

#include "backend/cuda/attention_backward.cuh"
#include "backend/cuda/attention_products.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

constexpr int kLongThreads = 128;  // a warpgroup
template <int D>
constexpr int kLongBlocks = D <= 64 ? 3 : 2;  // on a multiprocessor

// Grid: key blocks × key-value heads × sequences. Scores stand with the keys as rows.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>) attention_backward_keys(AttentionProblem p, int blocks) {
  extern __shared__ __align__(1024) unsigned char bytes[];
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
  const bool dropout = p.dropout.threshold > 0;

  // A step is a head that shares the keys and 64 queries of which some see some of the keys.
  const KeyRange seen_by = at.seen_by(p, first_key, last_key);
  const int first_query = seen_by.begin / 64 * 64, q_blocks = max(0, (seen_by.end - first_query + 63) / 64), steps = q_blocks * shared_by;
  const auto start = [&](int step) {  // brings in what a step needs
    const int stage = step % 2, query = first_query + step % q_blocks * 64;
    at.head = kv_head * shared_by + step / q_blocks;
    const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim;
    load_tile<D>(q_tile_of(stage), p.q, at.q_begin + query, nullptr, at.queries - query, column, p.head_dim);
    load_tile<D>(q_tile_of(stage) + kTileBytes<D>, p.dout, at.q_begin + query, nullptr, at.queries - query, column, p.head_dim);
    if (threadIdx.x < 64) {
      const int r = static_cast<int>(threadIdx.x);
      const bool there = query + r < at.queries;
      copy_async_8(shared_address(stats_of(stage) + r),
                   p.stats + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + (there ? query + r : 0), there);
    }
    commit_copies();
    if (dropout) draw_kept(p, at, query, 64, first_key / 64, 1, kept_of(stage));
  };

  float dk[D / 8][4], dv[D / 8][4];
  zero(dk), zero(dv);
  load_tile<D>(k_tile, p.k, at.k_begin + first_key, nullptr, at.keys - first_key, kv_column, p.head_dim);
  load_tile<D>(v_tile, p.v, at.k_begin + first_key, nullptr, at.keys - first_key, kv_column, p.head_dim);
  commit_copies();
  if (steps > 0) start(0);
  const int key0 = first_key + row + lane / 4, shift = 4 * warp_id() + lane / 4 % 4;  // of this lane's first key, and of its bits
  const float to_log2 = p.scale * kLog2e, keep = p.dropout.keep;

  // s = products, dp = dP → s = P∘F, dp = dS.
  const auto gradients = [&]<bool kPartly>(int query, const float2* stats, const uint32_t* kept, float(&s)[8][4], float(&dp)[8][4]) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int column = 8 * n + lane % 4 * 2;  // this lane's two queries
      const float4 of_queries = *reinterpret_cast<const float4*>(stats + column);
      uint32_t bits[2] = {~0U, ~0U};
      if (dropout) bits[0] = kept[column * 2 + lane / 16] >> shift, bits[1] = kept[column * 2 + 2 + lane / 16] >> shift;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = query + column + e % 2, j = key0 + e / 2 * 8;
        bool sees = true;
        if constexpr (kPartly) {
          const KeyRange seen = at.visible(p, i);
          sees = i < at.queries && j >= seen.begin && j < seen.end;
        }
        float score = s[n][e] * to_log2;
        if constexpr (kBiased) score += sees ? at.added(p, i, j) * kLog2e : 0.0F;
        const float weight = sees ? exp2_of(score - (e % 2 == 0 ? of_queries.x : of_queries.z)) : 0.0F;
        s[n][e] = bits[e % 2] >> (e / 2 * 16) & 1U ? weight * keep : 0.0F;
        dp[n][e] = s[n][e] * dp[n][e] - weight * (e % 2 == 0 ? of_queries.y : of_queries.w);
      }
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
    const bool all = first_key >= high.begin && first_key + 64 <= low.end && query + 64 <= at.queries;
    if (all) gradients.template operator()<false>(query, stats_of(stage), kept_of(stage), s, dp);
    else gradients.template operator()<true>(query, stats_of(stage), kept_of(stage), s, dp);
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
  const int key = first_key + row;
  if (p.dk.data) write_tile_rows<D>(dk, p.scale, p.scale, bytes, row, p.dk, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
  if (p.dv.data) write_tile_rows<D>(dv, 1.0F, 1.0F, bytes, row, p.dv, at.k_begin + key, at.keys - key, kv_column, p.head_dim);
}

// Grid: query blocks × heads × sequences. Scores stand with the queries as rows.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kLongThreads, kLongBlocks<D>) attention_backward_queries(AttentionProblem p, int blocks) {
  extern __shared__ __align__(1024) unsigned char bytes[];
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
  const auto start = [&](int b) {
    load_tile<D>(k_tile_of(b), p.k, at.k_begin + b * 64, nullptr, at.keys - b * 64, kv_column, p.head_dim);
    load_tile<D>(k_tile_of(b) + kTileBytes<D>, p.v, at.k_begin + b * 64, nullptr, at.keys - b * 64, kv_column, p.head_dim);
    commit_copies();
  };
  load_tile<D>(q_tile, p.q, at.q_begin + first, nullptr, at.queries - first, column, p.head_dim);
  load_tile<D>(g_tile, p.dout, at.q_begin + first, nullptr, at.queries - first, column, p.head_dim);
  commit_copies();
  if (begin < end) start(begin);

  // This lane's rows; one beyond the end stands for the last query, and is not written.
  const int row0 = min(first + row + lane / 4, at.queries - 1), row1 = min(first + row + lane / 4 + 8, at.queries - 1);
  const float2* const stats = p.stats + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin;
  const float2 stats0 = stats[row0], stats1 = stats[row1];
  const float to_log2 = p.scale * kLog2e, keep = p.dropout.keep;
  float dq[D / 8][4];
  zero(dq);

  // s = products, dp = dP, 0 where dropped → dp = dS.
  const auto gradients = [&]<bool kPartly>(int key, const float(&s)[8][4], float(&dp)[8][4]) {
    const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int j = key + 8 * n + lane % 4 * 2 + e % 2;
        const KeyRange seen = e < 2 ? seen0 : seen1;
        const bool sees = !kPartly || (j >= seen.begin && j < seen.end);
        float score = s[n][e] * to_log2;
        if constexpr (kBiased) score += sees ? at.added(p, e < 2 ? row0 : row1, j) * kLog2e : 0.0F;
        const float weight = sees ? exp2_of(score - (e < 2 ? stats0.x : stats1.x)) : 0.0F;
        dp[n][e] = weight * (dp[n][e] * keep - (e < 2 ? stats0.y : stats1.y));
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
    if (p.dropout.threshold > 0) {
      drop_row<0>(p.dropout, at.random_group(p, row0) + static_cast<std::uint64_t>(b), dp);
      drop_row<2>(p.dropout, at.random_group(p, row1) + static_cast<std::uint64_t>(b), dp);
    }
    if (key >= high.begin && key + 64 <= low.end) gradients.template operator()<false>(key, s, dp);
    else gradients.template operator()<true>(key, s, dp);
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
  write_tile_rows<D>(dq, p.scale, p.scale, bytes, row, p.dq, at.q_begin + first + row, at.queries - first - row, column, p.head_dim);
}

}  // namespace

bool mma_attention_backward(Context& ctx, const AttentionProblem& p) {
  if (!takes(p)) return false;
  const int q_blocks = static_cast<int>(blocks_of(p.queries.longest, 64)), k_blocks = static_cast<int>(blocks_of(p.keys.longest, 64));
  with_tile(p, [&]<int D, bool kBiased>() {
    constexpr std::size_t kTiles = 6 * kTileBytes<D>, kBeside = 2 * 64 * (8 + 8);
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
