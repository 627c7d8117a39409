// Attention forward in bfloat16 on the matrix units. A warp owns 16 queries, a block of threads as many warps as the queries need, at
// most eight; it walks over the keys 64 at a time with a running maximum and sum (online softmax), the next keys on their way.

#include <algorithm>

#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/launch.h"

namespace transformer {
namespace {

using namespace mma;

constexpr int kForwardKeys = 64;

// Grid: query blocks × heads × sequences. Scores are kept as multiples of log2(e), so that their exponentials are powers of two.
template <int D, bool kBiased>
__global__ void __launch_bounds__(256, D <= 64 ? 2 : 1) attention_forward_mma(AttentionProblem p, int blocks) {
  extern __shared__ __align__(16) __nv_bfloat16 memory[];
  const int lane = lane_id(), warp = warp_id(), block_rows = static_cast<int>(blockDim.x) / 2;
  const int place = static_cast<int>(blockIdx.x) / blocks, block = blocks - 1 - static_cast<int>(blockIdx.x) % blocks;  // long ones first
  const HeadPlace at(p, place / p.heads, place % p.heads);
  const int first = block * block_rows;
  if (first >= at.queries) return;
  constexpr int kTile = kForwardKeys * kStride<D>;
  __nv_bfloat16* const q_rows = memory + warp * 16 * kStride<D>;
  const uint32_t q_tile = shared_address(memory), k_tiles = q_tile + static_cast<uint32_t>(block_rows * kStride<D> * 2);
  const std::int64_t kv_column = static_cast<std::int64_t>(at.kv_head) * p.head_dim;

  const int begin = at.visible(p, first).begin / kForwardKeys;
  const int end = (at.visible(p, min(first + block_rows, at.queries) - 1).end + kForwardKeys - 1) / kForwardKeys;
  const auto load_keys = [&](int b, int stage) {
    const int key = b * kForwardKeys;
    const uint32_t k_tile = k_tiles + static_cast<uint32_t>(stage * 2 * kTile * 2), v_tile = k_tile + kTile * 2;
    load_rows<D>(k_tile, kForwardKeys, p.k, at.k_begin + key, p.keys.rows, at.keys - key, kv_column, p.head_dim);
    load_rows<D>(v_tile, kForwardKeys, p.v, at.k_begin + key, p.keys.rows, at.keys - key, kv_column, p.head_dim);
  };
  load_rows<D>(q_tile, block_rows, p.q, at.q_begin + first, nullptr, at.queries - first, static_cast<std::int64_t>(at.head) * p.head_dim,
               p.head_dim);
  if (begin < end) load_keys(begin, 0);
  commit_copies();

  // This lane's rows; one beyond the end stands for the last query, and is not written.
  const int warp_first = first + warp * 16, row0 = min(warp_first + lane / 4, at.queries - 1), row1 = min(row0 + 8, at.queries - 1);
  const KeyRange seen0 = at.visible(p, row0), seen1 = at.visible(p, row1);
  const bool works = warp_first < at.queries;
  const int warp_last = min(warp_first + 15, at.queries - 1);
  const KeyRange any{works ? at.visible(p, warp_first).begin : 0, works ? at.visible(p, warp_last).end : 0};
  const KeyRange all{works ? at.visible(p, warp_last).begin : 0, works ? at.visible(p, warp_first).end : 0};
  const float to_log2 = p.scale * kLog2e;

  float sums[D / 8][4], top0 = -INFINITY, top1 = -INFINITY, total0 = 0.0F, total1 = 0.0F;
  zero(sums);
  Fragment q[D / 16];

  const auto walk = [&]<bool kPartly>(int key, uint32_t k_tile, uint32_t v_tile) {
    const int pairs = kPartly ? min(4, (any.end - key + 15) / 16) : 4;  // of 8 keys that somebody sees
    float s[8][4];
    zero(s);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (kPartly && n >= pairs) break;
#pragma unroll
      for (int c = 0; c < D / 16; ++c) multiply_add(s[2 * n], s[2 * n + 1], q[c], right(k_tile, kStride<D>, 16 * n, 16 * c));
    }
    if constexpr (kBiased || kPartly) {
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
      const std::uint64_t group = static_cast<std::uint64_t>(key / 64);
      const uint32_t bits0 = kept_bits(p.dropout, at.random_group(p, row0) + group),
                     bits1 = kept_bits(p.dropout, at.random_group(p, row1) + group);
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = (e < 2 ? bits0 : bits1) >> (2 * n + e % 2) & 1U ? s[n][e] : 0.0F;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (kPartly && n >= pairs) break;
      const Fragment weights = as_left(s[2 * n], s[2 * n + 1]);
#pragma unroll
      for (int c = 0; c < D / 16; ++c)
        multiply_add(sums[2 * c], sums[2 * c + 1], weights, right_as_it_lies(v_tile, kStride<D>, 16 * n, 16 * c));
    }
  };

  for (int b = begin; b < end; ++b) {
    wait_for_copies();
    __syncthreads();
    if (b + 1 < end) {
      load_keys(b + 1, (b + 1 - begin) % 2);
      commit_copies();
    }
    if (b == begin) {
#pragma unroll
      for (int c = 0; c < D / 16; ++c) q[c] = left(q_tile, kStride<D>, warp * 16, 16 * c);
    }
    const int key = b * kForwardKeys;
    const uint32_t k_tile = k_tiles + static_cast<uint32_t>((b - begin) % 2 * 2 * kTile * 2), v_tile = k_tile + kTile * 2;
    if (key >= any.end || key + kForwardKeys <= any.begin) continue;
    if (key >= all.begin && key + kForwardKeys <= all.end) walk.template operator()<false>(key, k_tile, v_tile);
    else walk.template operator()<true>(key, k_tile, v_tile);
  }
  if (begin >= end) {  // no keys: the queries may still be on their way
    wait_for_copies();
    __syncthreads();
  }
  if (!works) return;
#pragma unroll
  for (int m = 1; m < 4; m *= 2) {
    total0 += __shfl_xor_sync(0xFFFFFFFFU, total0, m);
    total1 += __shfl_xor_sync(0xFFFFFFFFU, total1, m);
  }
  float* const lse = p.lse + static_cast<std::int64_t>(at.head) * p.queries.total + at.q_begin + warp_first;
  if (lane % 4 == 0) {
    if (warp_first + lane / 4 < at.queries) lse[lane / 4] = total0 > 0.0F ? (top0 + log2f(total0)) * kLn2 : -INFINITY;
    if (warp_first + lane / 4 + 8 < at.queries) lse[lane / 4 + 8] = total1 > 0.0F ? (top1 + log2f(total1)) * kLn2 : -INFINITY;
  }
  const float keep = p.dropout.keep;
  write_rows<D>(sums, total0 > 0.0F ? keep / total0 : 0.0F, total1 > 0.0F ? keep / total1 : 0.0F, q_rows, p.out, at.q_begin + warp_first,
                at.queries - warp_first, static_cast<std::int64_t>(at.head) * p.head_dim, p.head_dim);
}

}  // namespace

bool mma_attention(Context& ctx, const AttentionProblem& p) {
  if (!takes(p)) return false;
  const int tiles = static_cast<int>(blocks_of(p.queries.longest, 16)), blocks = static_cast<int>(blocks_of(tiles, 8));
  if (blocks == 0) return true;
  const int warps = static_cast<int>(blocks_of(tiles, blocks)), stages = p.keys.longest > kForwardKeys ? 2 : 1;
  with_width(p, [&]<int D, bool kBiased>() {
    const std::size_t shared = static_cast<std::size_t>(warps * 16 + stages * 2 * kForwardKeys) * kStride<D> * sizeof(__nv_bfloat16);
    launch(ctx, "attention", attention_forward_mma<D, kBiased>, dim3(static_cast<unsigned>(blocks * p.heads * p.queries.count)),
           dim3(static_cast<unsigned>(warps * 32)), shared, p, blocks);
  });
  return true;
}

}  // namespace transformer
