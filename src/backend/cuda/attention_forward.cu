// Attention forward in bfloat16 on the matrix units. A warpgroup owns 64 queries; it walks over the keys 64 at a time with a running
// maximum and sum (online softmax), while the next keys are on their way.

#include <algorithm>

#include "backend/cuda/attention_products.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

template <int D>
constexpr int kMostGroups = D <= 64 ? 2 : 3;  // warpgroups of a block

// Grid: query blocks × heads × sequences. Scores are kept as multiples of log2(e), so that their exponentials are powers of two.
template <int D, int kGroups, bool kBiased>
__global__ void __launch_bounds__(kGroups * 128, kGroups == 1 ? 5 - D / 64 : 3 - D / 64) attention_forward(AttentionProblem p, int blocks) {
  SHARED_OF_LAUNCH(bytes, __align__(1024) unsigned char);
  const int lane = lane_id(), group = warp_id() / 4, row = warp_id() % 4 * 16;
  const int place = static_cast<int>(blockIdx.x) / blocks, block = blocks - 1 - static_cast<int>(blockIdx.x) % blocks;  // long ones first
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = block * kGroups * 64;
  if (first >= at.queries) return;
  const std::int64_t column = static_cast<std::int64_t>(at.head) * p.head_dim,
                     kv_column = static_cast<std::int64_t>(at.kv_head) * p.head_dim;
  const uint32_t memory = shared_address(bytes), q_tile = memory + static_cast<uint32_t>(group * kTileBytes<D>);
  const auto k_tile_of = [&](int stage) { return memory + static_cast<uint32_t>((kGroups + 2 * stage) * kTileBytes<D>); };

  const int begin = at.visible(p, first).begin / 64, end = (at.visible(p, min(first + kGroups * 64, at.queries) - 1).end + 63) / 64;
  const TileCopy<D, kGroups * 128> copy(p.head_dim);
  const auto k_source = copy.source(p.k, at.k_begin, kv_column), v_source = copy.source(p.v, at.k_begin, kv_column);
  const auto load_keys = [&](int b) {
    const uint32_t k_tile = k_tile_of((b - begin) % 2), v_tile = k_tile + kTileBytes<D>;
    if (p.keys.rows) {
      copy.listed(k_tile, p.k, p.keys.rows + at.k_begin + b * 64, kv_column, at.keys - b * 64);
      copy.listed(v_tile, p.v, p.keys.rows + at.k_begin + b * 64, kv_column, at.keys - b * 64);
    } else {
      copy(k_tile, k_source.rows_on(b * 64), at.keys - b * 64);
      copy(v_tile, v_source.rows_on(b * 64), at.keys - b * 64);
    }
    commit_copies();
  };
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
    copy(memory + static_cast<uint32_t>(g * kTileBytes<D>), copy.source(p.q, at.q_begin + first + g * 64, column),
         at.queries - first - g * 64);
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

  // Scores of 64 keys: with what is added to them, and -inf where a row does not see a key.
  const auto adjust = [&](int key, float(&s)[8][4]) {
    const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int k = key + 8 * n + lane % 4 * 2 + e % 2;
        const KeyRange seen = e < 2 ? seen0 : seen1;
        const bool sees = k >= seen.begin && k < seen.end;
        if constexpr (kBiased) s[n][e] = sees ? s[n][e] * to_log2 + at.added(p, e < 2 ? row0 : row1, k) * kLog2e : -INFINITY;
        else if (!sees) s[n][e] = -INFINITY;
      }
  };
  // Scores → exponentials of what they are above a maximum. It may be up to 2⁸ too small: the sums are scaled down only when it must.
  const auto softmax = [&](int key, float(&s)[8][4]) {
    float high0 = -INFINITY, high1 = -INFINITY;
#pragma unroll
    for (int n = 0; n < 8; ++n) high0 = fmaxf(high0, fmaxf(s[n][0], s[n][1])), high1 = fmaxf(high1, fmaxf(s[n][2], s[n][3]));
#pragma unroll
    for (int m = 1; m < 4; m *= 2) {
      high0 = fmaxf(high0, __shfl_xor_sync(0xFFFFFFFFU, high0, m));
      high1 = fmaxf(high1, __shfl_xor_sync(0xFFFFFFFFU, high1, m));
    }
    constexpr float kSlack = 8.0F;
    const float factor = kBiased ? 1.0F : to_log2;
    high0 *= factor, high1 *= factor;
    if (__any_sync(0xFFFFFFFFU, high0 > top0 + kSlack || high1 > top1 + kSlack)) {
      high0 = fmaxf(top0, high0), high1 = fmaxf(top1, high1);
      const float shrink0 = high0 == -INFINITY ? 1.0F : exp2_of(top0 - high0), shrink1 = high1 == -INFINITY ? 1.0F : exp2_of(top1 - high1);
      top0 = high0, top1 = high1;
      total0 *= shrink0, total1 *= shrink1;
#pragma unroll
      for (int i = 0; i < D / 8; ++i) sums[i][0] *= shrink0, sums[i][1] *= shrink0, sums[i][2] *= shrink1, sums[i][3] *= shrink1;
    }
    const float shift0 = top0 == -INFINITY ? 0.0F : top0, shift1 = top1 == -INFINITY ? 0.0F : top1;  // nothing seen yet
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      s[n][0] = exp2_of(s[n][0] * factor - shift0), s[n][1] = exp2_of(s[n][1] * factor - shift0);
      s[n][2] = exp2_of(s[n][2] * factor - shift1), s[n][3] = exp2_of(s[n][3] * factor - shift1);
      total0 += s[n][0] + s[n][1], total1 += s[n][2] + s[n][3];
    }
    if (p.dropout.threshold > 0) {
      drop_row<0>(p, at.random_group(p, row0) + static_cast<std::uint64_t>(key / 64), s);
      drop_row<2>(p, at.random_group(p, row1) + static_cast<std::uint64_t>(key / 64), s);
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
    if (warp_first < at.queries) {
      if (kBiased || key < all.begin || key + 64 > all.end) adjust(key, s);
      softmax(key, s);
    }
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
    const auto shared_by = [&](int groups) { return static_cast<std::size_t>((groups + (p.keys.longest > 64 ? 4 : 2)) * kTileBytes<D>); };
    const auto start = [&]<int kGroups>() {
      const int blocks = static_cast<int>(blocks_of(tiles, kGroups));
      launch(ctx, "attention", attention_forward<D, kGroups, kBiased>, dim3(static_cast<unsigned>(blocks * p.heads * p.queries.count)),
             dim3(kGroups * 128), shared_by(kGroups), p, blocks);
    };
    if (tiles == 1 || shared_by(kMostGroups<D>) > cuda(ctx).most_shared_memory()) start.template operator()<1>();
    else start.template operator()<kMostGroups<D>>();
  });
  return true;
}

}  // namespace transformer
