// Attention forward in bfloat16 on the matrix units. A warpgroup owns 64 queries; it walks over the keys 64 at a time with a running
// maximum and sum (online softmax), while the next keys are on their way.

#include <algorithm>

#include "backend/cuda/attention_products.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

template <int D>
constexpr int kForwardThreads = D <= 64 ? 256 : 384;  // at most

// Grid: query blocks × heads × sequences. Scores are kept as multiples of log2(e), so that their exponentials are powers of two.
template <int D, bool kBiased>
__global__ void __launch_bounds__(kForwardThreads<D>, D <= 64 ? 2 : 1) attention_forward(AttentionProblem p, int blocks) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  const int lane = lane_id(), group = warp_id() / 4, row = warp_id() % 4 * 16, groups = static_cast<int>(blockDim.x) / 128;
  const int place = static_cast<int>(blockIdx.x) / blocks, block = blocks - 1 - static_cast<int>(blockIdx.x) % blocks;  // long ones first
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = block * groups * 64;
  if (first >= at.queries) return;
  const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim,
                     kv_column = static_cast<std::int64_t>(at.kv_head) * p.head_dim;
  const uint32_t memory = shared_address(bytes), q_tile = memory + static_cast<uint32_t>(group * kTileBytes<D>);
  const auto k_tile_of = [&](int stage) { return memory + static_cast<uint32_t>((groups + 2 * stage) * kTileBytes<D>); };

  const int begin = at.visible(p, first).begin / 64, end = (at.visible(p, min(first + groups * 64, at.queries) - 1).end + 63) / 64;
  const auto load_keys = [&](int b) {
    const uint32_t k_tile = k_tile_of((b - begin) % 2);
    load_tile<D>(k_tile, p.k, at.k_begin + b * 64, p.keys.rows, at.keys - b * 64, kv_column, p.head_dim);
    load_tile<D>(k_tile + kTileBytes<D>, p.v, at.k_begin + b * 64, p.keys.rows, at.keys - b * 64, kv_column, p.head_dim);
    commit_copies();
  };
  for (int g = 0; g < groups; ++g)
    load_tile<D>(memory + static_cast<uint32_t>(g * kTileBytes<D>), p.q, at.q_begin + first + g * 64, nullptr, at.queries - first - g * 64,
                 column, p.head_dim);
  if (begin < end) load_keys(begin);

  // What the warpgroup's queries see, any of them and all of them; then this lane's two rows. One beyond the end stands for the last
  // query, and is not written.
  const int group_first = first + group * 64, group_last = min(group_first + 63, at.queries - 1);
  const bool works = group_first < at.queries;
  const KeyRange low = at.visible(p, works ? group_first : 0), high = at.visible(p, works ? group_last : 0);
  const KeyRange any{works ? low.begin : 0, works ? high.end : 0}, all{high.begin, low.end};
  const int warp_first = group_first + row, row0 = min(warp_first + lane / 4, at.queries - 1),
            row1 = min(warp_first + lane / 4 + 8, at.queries - 1);
  const float to_log2 = p.scale * kLog2e;
  float sums[D / 8][4], top0 = -INFINITY, top1 = -INFINITY, total0 = 0.0F, total1 = 0.0F;
  zero(sums);

  const auto softmax = [&]<bool kPartly>(int key, float(&s)[8][4]) {
    if constexpr (kBiased || kPartly) {
      const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int k = key + 8 * n + lane % 4 * 2 + e % 2;
          const KeyRange seen = e < 2 ? seen0 : seen1;
          const bool sees = !kPartly || (k >= seen.begin && k < seen.end);
          if constexpr (kBiased) s[n][e] = sees ? s[n][e] * to_log2 + at.added(p, e < 2 ? row0 : row1, k) * kLog2e : -INFINITY;
          else s[n][e] = sees ? s[n][e] : -INFINITY;
        }
    }
    float high0 = -INFINITY, high1 = -INFINITY;
#pragma unroll
    for (int n = 0; n < 8; ++n) high0 = fmaxf(high0, fmaxf(s[n][0], s[n][1])), high1 = fmaxf(high1, fmaxf(s[n][2], s[n][3]));
#pragma unroll
    for (int m = 1; m < 4; m *= 2) {
      high0 = fmaxf(high0, __shfl_xor_sync(0xFFFFFFFFU, high0, m));
      high1 = fmaxf(high1, __shfl_xor_sync(0xFFFFFFFFU, high1, m));
    }
    const float factor = kBiased ? 1.0F : to_log2;
    high0 = fmaxf(top0, high0 * factor), high1 = fmaxf(top1, high1 * factor);
    const float shift0 = high0 == -INFINITY ? 0.0F : high0, shift1 = high1 == -INFINITY ? 0.0F : high1;  // nothing seen yet
    const float shrink0 = exp2_of(top0 - shift0), shrink1 = exp2_of(top1 - shift1);
    top0 = high0, top1 = high1;
    total0 *= shrink0, total1 *= shrink1;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      s[n][0] = exp2_of(s[n][0] * factor - shift0), s[n][1] = exp2_of(s[n][1] * factor - shift0);
      s[n][2] = exp2_of(s[n][2] * factor - shift1), s[n][3] = exp2_of(s[n][3] * factor - shift1);
      total0 += s[n][0] + s[n][1], total1 += s[n][2] + s[n][3];
    }
#pragma unroll
    for (int i = 0; i < D / 8; ++i) sums[i][0] *= shrink0, sums[i][1] *= shrink0, sums[i][2] *= shrink1, sums[i][3] *= shrink1;
    if (p.dropout.threshold > 0) {
      drop_row<0>(p.dropout, at.random_group(p, row0) + static_cast<std::uint64_t>(key / 64), s);
      drop_row<2>(p.dropout, at.random_group(p, row1) + static_cast<std::uint64_t>(key / 64), s);
    }
  };

  for (int b = begin; b < end; ++b) {
    finish_copies();
    __syncthreads();
    if (b + 1 < end) load_keys(b + 1);
    const int key = b * 64;
    if (key >= any.end || key + 64 <= any.begin) continue;
    const uint32_t k_tile = k_tile_of((b - begin) % 2);
    float s[8][4];
    begin_products();
    product_of_rows<D>(s, q_tile, k_tile);
    commit_products();
    wait_for_products();
    pin(s);
    if (key >= all.begin && key + 64 <= all.end) softmax.template operator()<false>(key, s);
    else softmax.template operator()<true>(key, s);
    Fragment weights[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) weights[n] = as_left(s[2 * n], s[2 * n + 1]);
    pin(sums);
    begin_products();
    add_product<D>(sums, weights, k_tile + kTileBytes<D>);
    commit_products();
    wait_for_products();
    pin(sums);
  }
  finish_copies();  // of queries that see no keys
  __syncthreads();
#pragma unroll
  for (int m = 1; m < 4; m *= 2) {
    total0 += __shfl_xor_sync(0xFFFFFFFFU, total0, m);
    total1 += __shfl_xor_sync(0xFFFFFFFFU, total1, m);
  }
  if (warp_first >= at.queries) return;
  float* const lse = p.lse + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + warp_first;
  if (lane % 4 == 0) {
    if (warp_first + lane / 4 < at.queries) lse[lane / 4] = total0 > 0.0F ? (top0 + log2f(total0)) * kLn2 : -INFINITY;
    if (warp_first + lane / 4 + 8 < at.queries) lse[lane / 4 + 8] = total1 > 0.0F ? (top1 + log2f(total1)) * kLn2 : -INFINITY;
  }
  const float keep = p.dropout.keep;
  write_tile_rows<D>(sums, total0 > 0.0F ? keep / total0 : 0.0F, total1 > 0.0F ? keep / total1 : 0.0F, bytes + group * kTileBytes<D>, row,
                     p.out, at.q_begin + warp_first, at.queries - warp_first, column, p.head_dim);
}

}  // namespace

bool mma_attention(Context& ctx, const AttentionProblem& p) {
  if (!takes(p)) return false;
  const int tiles = static_cast<int>(blocks_of(p.queries.longest, 64));
  if (tiles == 0) return true;
  with_tile(p, [&]<int D, bool kBiased>() {
    const int blocks = static_cast<int>(blocks_of(tiles, kForwardThreads<D> / 128)), groups = static_cast<int>(blocks_of(tiles, blocks));
    const int shared = (groups + (p.keys.longest > 64 ? 4 : 2)) * kTileBytes<D>;
    launch(ctx, "attention", attention_forward<D, kBiased>, dim3(static_cast<unsigned>(blocks * p.heads * p.queries.count)),
           dim3(static_cast<unsigned>(groups * 128)), static_cast<std::size_t>(shared), p, blocks);
  });
  return true;
}

}  // namespace transformer
