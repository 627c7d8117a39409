#pragma once
// bfloat16 tiles in shared memory and the matrix units (mma.sync m16n8k16, float32 sums). A fragment of 16 × 8 sums lies in a warp so:
// lane l holds row l/4 (elements 0, 1) and row l/4 + 8 (elements 2, 3), columns 2·(l%4) and 2·(l%4) + 1.

#include <cuda_bf16.h>

#include "backend/cuda/attention.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/ptx.cuh"

namespace transformer::mma {

using std::uint32_t;

// Rows of D columns; eight columns of padding keep eight neighbouring rows in different banks.
template <int D>
inline constexpr int kStride = D + 8;

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline int lane_id() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x) / 32; }

using ptx::Fragment;
using ptx::load_matrices;
using ptx::load_matrices_turned;
using ptx::multiply_add;

// A 16 × 16 block at (row, column) of a tile as an operand. left: [16 × k 16]; right: [k 16 × 16], two fragments of eight columns
// (registers 0, 1 and 2, 3). left and right_as_it_lies take the block as it lies, right and left_turned its
// transpose.
__device__ inline uint32_t block_by_rows(uint32_t tile, int stride, int row, int column) {
  const int l = lane_id();
  return tile + static_cast<uint32_t>(((row + l % 16) * stride + column + l / 16 * 8) * 2);
}
__device__ inline uint32_t block_by_halves(uint32_t tile, int stride, int row, int column) {
  const int l = lane_id();
  return tile + static_cast<uint32_t>(((row + l / 16 * 8 + l % 8) * stride + column + l / 8 % 2 * 8) * 2);
}
__device__ inline Fragment left(uint32_t tile, int stride, int row, int column) {
  return load_matrices(block_by_rows(tile, stride, row, column));
}
__device__ inline Fragment left_turned(uint32_t tile, int stride, int row, int column) {
  return load_matrices_turned(block_by_halves(tile, stride, row, column));
}
__device__ inline Fragment right(uint32_t tile, int stride, int row, int column) {  // rows of the tile are columns of the operand
  return load_matrices(block_by_halves(tile, stride, row, column));
}
__device__ inline Fragment right_as_it_lies(uint32_t tile, int stride, int row, int column) {
  return load_matrices_turned(block_by_rows(tile, stride, row, column));
}

// Both halves of a right operand.
__device__ inline void multiply_add(float (&c0)[4], float (&c1)[4], const Fragment& a, const Fragment& b) {
  multiply_add(c0, a, b.r[0], b.r[1]);
  multiply_add(c1, a, b.r[2], b.r[3]);
}

__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 x = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&x);
}
// Two neighbouring fragments of sums as a left operand.
__device__ inline Fragment as_left(const float (&c0)[4], const float (&c1)[4]) {
  return {{pack(c0[0], c0[1]), pack(c0[2], c0[3]), pack(c1[0], c1[1]), pack(c1[2], c1[3])}};
}

__device__ inline float exp2_of(float x) { return ptx::power_of_two(x); }

// --- copies to shared memory that run beside the computation -------------------------------------------------------------------
using ptx::commit_copies;
using ptx::copy_async;
using ptx::copy_async_8;
using ptx::wait_for_copies;

// tile [rows, D] = rows first … of one head; zeros beyond `count` rows and head_dim columns. All threads of the block take part.
template <int D>
__device__ inline void load_rows(uint32_t tile, int rows, const TokenRows& from, std::int64_t first, const std::int32_t* listed, int count,
                                 std::int64_t column, int head_dim) {
  constexpr int kPieces = D / 8;
  for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces; i += static_cast<int>(blockDim.x)) {
    const int r = i / kPieces, c = i % kPieces * 8;
    const bool there = r < count && c < head_dim;
    const std::int64_t row = !there ? 0 : listed ? listed[first + r] : first + r;
    copy_async(tile + static_cast<uint32_t>((r * kStride<D> + c) * 2), from.at<__nv_bfloat16>(row, there ? column + c : 0), there);
  }
}

// A warp writes its 16 rows of sums · factor (of rows l/4 and l/4 + 8) to memory, by way of its own 16 rows of a tile.
template <int D>
__device__ inline void write_rows(const float (&sums)[D / 8][4], float factor0, float factor1, __nv_bfloat16* tile_rows,
                                  const TokenRows& to, std::int64_t first, int count, std::int64_t column, int head_dim) {
  const int l = lane_id();
  __syncwarp();
#pragma unroll
  for (int i = 0; i < D / 8; ++i) {
    __nv_bfloat16* at = tile_rows + l / 4 * kStride<D> + i * 8 + l % 4 * 2;
    *reinterpret_cast<uint32_t*>(at) = pack(sums[i][0] * factor0, sums[i][1] * factor0);
    *reinterpret_cast<uint32_t*>(at + 8 * kStride<D>) = pack(sums[i][2] * factor1, sums[i][3] * factor1);
  }
  __syncwarp();
  constexpr int kPieces = D / 8;
  for (int i = l; i < 16 * kPieces; i += 32) {
    const int r = i / kPieces, c = i % kPieces * 8;
    if (r < count && c < head_dim)
      *reinterpret_cast<uint4*>(to.at<__nv_bfloat16>(first + r, column + c)) = *reinterpret_cast<const uint4*>(tile_rows + r * kStride<D> +
                                                                                                               c);
  }
}

// Σ of the products of eight elements at the same place of two tiles.
__device__ inline float dot_of_pieces(const unsigned char* a, const unsigned char* b, uint32_t offset) {
  const uint4 x = *reinterpret_cast<const uint4*>(a + offset), y = *reinterpret_cast<const uint4*>(b + offset);
  const auto *u = reinterpret_cast<const __nv_bfloat162*>(&x), *v = reinterpret_cast<const __nv_bfloat162*>(&y);
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 s = __bfloat1622float2(u[i]), t = __bfloat1622float2(v[i]);
    sum += s.x * t.x + s.y * t.y;
  }
  return sum;
}

template <int N>
__device__ inline void zero(float (&sums)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0F;
}

// Puts zeros where a row of 16 × 64 scores, elements kFirst and kFirst + 1 of each fragment, drops a key; its random numbers are those
// of a group. The words of a block of Philox are 16 keys apart: every second fragment. Returns this lane's keys that are kept, as
// KeptKeys has them.
template <int kFirst>
__device__ inline uint32_t drop_row(const AttentionProblem& p, std::uint64_t group, float (&s)[8][4]) {
  uint32_t kept = 0;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint4 words = dropout_words(p, group, 8 * n + lane_id() % 4 * 2 + e);
      const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (w[i] < p.dropout.threshold) s[n + 2 * i][kFirst + e] = 0.0F;
        else kept |= 1U << (4 * i + e + 16 * n);
      }
    }
  }
  return kept << (lane_id() % 2 * 2);
}

// May the rows of a problem be copied 16 bytes at a time?
inline bool in_whole_pieces(const TokenRows& rows) {
  return rows.data == nullptr || (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && rows.stride % 8 == 0);
}
inline bool takes(const AttentionProblem& p) {
  for (const TokenRows* rows : {&p.q, &p.k, &p.v, &p.out, &p.dout, &p.dq, &p.dk, &p.dv})
    if (!in_whole_pieces(*rows)) return false;
  return p.head_dim % 8 == 0 && p.head_dim <= 128 && p.scale > 0.0F;
}
// Calls f.template operator()<D, biased>() with the width of the tiles.
template <class F>
void with_width(const AttentionProblem& p, F&& f) {
  const auto biased = [&]<int D>() {
    if (p.bias || p.relative) f.template operator()<D, true>();
    else f.template operator()<D, false>();
  };
  if (p.head_dim <= 32) biased.template operator()<32>();
  else if (p.head_dim <= 64) biased.template operator()<64>();
  else if (p.head_dim <= 96) biased.template operator()<96>();
  else biased.template operator()<128>();
}

}  // namespace transformer::mma
