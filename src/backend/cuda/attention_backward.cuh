#pragma once
// Attention backward on the matrix units, the step that its kernels share: the gradients of 16 keys with respect to 16 queries. See
// attention_general_backward.cu for the formulas.

#include "backend/cuda/attention_mma.cuh"

namespace transformer::mma {

// KeptKeys: which keys a row of scores keeps, of whole groups of 64: for query r and group g two words, the first for the keys with
// key % 8 < 4. Bit 4·(key / 16 % 4) + key % 4, in the upper half for key % 16 ≥ 8.
__device__ inline void draw_kept(const AttentionProblem& p, const HeadPlace& at, int first_query, int queries, int first_group, int groups,
                                 uint32_t* kept) {
  for (int i = static_cast<int>(threadIdx.x); i < queries * groups * 4; i += static_cast<int>(blockDim.x)) {
    const int r = i / (4 * groups), g = i / 4 % groups, quarter = i % 4;
    const std::uint64_t group = at.random_group(p, first_query + r) + static_cast<std::uint64_t>(first_group + g);
    uint32_t bits = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const uint4 w = dropout_words(p, group, 4 * quarter + c);
      bits |= (w.x >= p.dropout.threshold ? 1U : 0U) << c;
      bits |= (w.y >= p.dropout.threshold ? 1U : 0U) << (c + 4);
      bits |= (w.z >= p.dropout.threshold ? 1U : 0U) << (c + 8);
      bits |= (w.w >= p.dropout.threshold ? 1U : 0U) << (c + 12);
    }
    reinterpret_cast<std::uint16_t*>(kept)[((r * groups + g) * 2 + quarter % 2) * 2 + quarter / 2] = static_cast<std::uint16_t>(bits);
  }
}

// Of 16 queries and 16 keys: does any query see any key, does every query see every key?
struct Sight {
  bool any, all;
  __device__ Sight(const AttentionProblem& p, const HeadPlace& at, int query, int key) {
    const int last = min(query + 15, at.queries - 1);
    const KeyRange low = at.visible(p, query), high = at.visible(p, last);
    any = key < high.end && key + 15 >= low.begin && low.begin < high.end;
    all = key >= high.begin && key + 16 <= low.end && query + 16 <= at.queries;
  }
};

// The operands of a step: tiles in shared memory, and the row where its 16 queries or keys begin.
struct StepTiles {
  uint32_t q, dout, k, v;
  int q_row, k_row;
  const float2* stats;   // of the 16 queries
  const uint32_t* kept;  // of the first query and the keys' group, or null
  int kept_stride;       // words from one query to the next
};

// One warp's 16 keys: sums of dk and dv, and the keys and values as left operands where there are registers for them.
template <int D, bool kHeld>
struct KeySums {
  float dk[D / 8][4], dv[D / 8][4];
  Fragment k[kHeld ? D / 16 : 1], v[kHeld ? D / 16 : 1];

  __device__ void begin() { zero(dk), zero(dv); }
  __device__ void hold(uint32_t k_tile, uint32_t v_tile, int row) {
    if constexpr (kHeld) {
#pragma unroll
      for (int c = 0; c < D / 16; ++c) k[c] = left(k_tile, kStride<D>, row, 16 * c), v[c] = left(v_tile, kStride<D>, row, 16 * c);
    }
  }

  // Adds what 16 queries contribute; returns dS [16 keys × 16 queries].
  template <bool kBiased>
  __device__ Fragment add(const AttentionProblem& p, const HeadPlace& at, const StepTiles& tiles, int query, int key, bool partly) {
    const int lane = lane_id();
    float s[2][4], dp[2][4];
    zero(s), zero(dp);
#pragma unroll
    for (int c = 0; c < D / 16; ++c) {
      if constexpr (kHeld) {
        multiply_add(s[0], s[1], k[c], right(tiles.q, kStride<D>, tiles.q_row, 16 * c));
        multiply_add(dp[0], dp[1], v[c], right(tiles.dout, kStride<D>, tiles.q_row, 16 * c));
      } else {
        multiply_add(s[0], s[1], left(tiles.k, kStride<D>, tiles.k_row, 16 * c), right(tiles.q, kStride<D>, tiles.q_row, 16 * c));
        multiply_add(dp[0], dp[1], left(tiles.v, kStride<D>, tiles.k_row, 16 * c), right(tiles.dout, kStride<D>, tiles.q_row, 16 * c));
      }
    }
    const float to_log2 = p.scale * kLog2e;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int column = 8 * n + lane % 4 * 2;  // this lane's two queries
      const float4 stats = *reinterpret_cast<const float4*>(tiles.stats + column);
      uint32_t kept[2] = {~0U, ~0U};
      if (tiles.kept) {
        const int shift = 4 * (key / 16 % 4) + lane / 4 % 4;
        kept[0] = tiles.kept[column * tiles.kept_stride + lane / 16] >> shift;
        kept[1] = tiles.kept[(column + 1) * tiles.kept_stride + lane / 16] >> shift;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = query + column + e % 2, j = key + lane / 4 + e / 2 * 8;
        bool sees = true;
        if (partly) {
          const KeyRange seen = at.visible(p, i);
          sees = i < at.queries && j >= seen.begin && j < seen.end;
        }
        float score = s[n][e] * to_log2;
        if constexpr (kBiased) score += sees ? at.added(p, i, j) * kLog2e : 0.0F;
        const float weight = sees ? exp2_of(score - (e % 2 == 0 ? stats.x : stats.z)) : 0.0F;
        s[n][e] = kept[e % 2] >> (e / 2 * 16) & 1U ? weight * p.dropout.keep : 0.0F;
        dp[n][e] = s[n][e] * dp[n][e] - weight * (e % 2 == 0 ? stats.y : stats.w);
      }
    }
    const Fragment weights = as_left(s[0], s[1]), ds = as_left(dp[0], dp[1]);
#pragma unroll
    for (int c = 0; c < D / 16; ++c) {
      multiply_add(dv[2 * c], dv[2 * c + 1], weights, right_as_it_lies(tiles.dout, kStride<D>, tiles.q_row, 16 * c));
      multiply_add(dk[2 * c], dk[2 * c + 1], ds, right_as_it_lies(tiles.q, kStride<D>, tiles.q_row, 16 * c));
    }
    return ds;
  }
};

}  // namespace transformer::mma
