#pragma once
// Products of tiles of 64 rows by the 128 threads of a warpgroup: each warp owns 16 of the 64 rows of a result. Where the chip has
// them (sm_90a) these are asynchronous instructions that read tiles from shared memory by themselves (wgmma), elsewhere mma.sync.
//
// A tile has D = 64 or 128 columns in panels of 64: [D/64][64 rows][128 bytes], the 16-byte pieces of a row exchanged by its number
// (piece ^ row % 8), so that eight rows of one piece, and eight pieces of one row, lie in different banks. Tiles begin at multiples
// of 1024 bytes.

#include "backend/cuda/attention_mma.cuh"

namespace transformer::mma {

inline constexpr int kPanel = 64 * 128;  // bytes
template <int D>
inline constexpr int kTileBytes = 64 * D * 2;

// Where the 16 bytes at a row and column (a multiple of 8) are in a tile.
__device__ inline uint32_t piece_at(int row, int column) {
  return static_cast<uint32_t>(column / 64 * kPanel + row * 128 + ((column / 8 % 8) ^ (row % 8)) * 16);
}

// What a thread copies of every tile: one column of pieces, from its first row on, every kStep rows.
template <int D, int kThreads>
struct TileCopy {
  static constexpr int kStep = kThreads / (D / 8), kPasses = (64 + kStep - 1) / kStep;
  static_assert(kStep % 8 == 0);  // so that a thread's pieces are exchanged alike
  int row, column;
  bool there;  // within head_dim
  uint32_t offset;

  // Where this thread's pieces of some rows begin, and their distance in bytes.
  struct Source {
    const unsigned char* first;
    int row_bytes;
    __device__ Source rows_on(int rows) const { return {first + static_cast<std::int64_t>(rows) * row_bytes, row_bytes}; }
  };

  __device__ explicit TileCopy(int head_dim)
      : row(static_cast<int>(threadIdx.x) / (D / 8)), column(static_cast<int>(threadIdx.x) % (D / 8) * 8), there(column < head_dim),
        offset(piece_at(row, column)) {}

  __device__ Source source(const TokenRows& from, std::int64_t first, std::int64_t head_column) const {
    return {reinterpret_cast<const unsigned char*>(from.at<__nv_bfloat16>(first + row, head_column + column)),
            static_cast<int>(from.stride * 2)};
  }
  // tile = 64 rows, of which `count` are there; zeros elsewhere. All threads of the block take part.
  __device__ void operator()(uint32_t tile, const Source& from, int count) const {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
      if (kPasses * kStep == 64 || row + i * kStep < 64)
        copy_async(tile + offset + static_cast<uint32_t>(i * kStep * 128), from.first + i * kStep * from.row_bytes,
                   there && row + i * kStep < count);
  }
  // The same of rows that are listed.
  __device__ void listed(uint32_t tile, const TokenRows& from, const std::int32_t* rows, std::int64_t head_column, int count) const {
    for (int r = row; r < 64; r += kStep)
      copy_async(tile + piece_at(r, column), from.at<__nv_bfloat16>(there && r < count ? rows[r] : 0, there ? head_column + column : 0),
                 there && r < count);
  }
};
// Copies of this thread have arrived, and are seen by the matrix units after the next barrier.
__device__ inline void finish_copies() {
  wait_for_copies();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  ptx::show_copies();
#endif
}

// A warp writes its 16 rows of sums · factor (of rows l/4 and l/4 + 8) to memory, by way of the 16 rows of a tile from `row`.
template <int D>
__device__ inline void write_tile_rows(const float (&sums)[D / 8][4], float factor0, float factor1, unsigned char* tile, int row,
                                       const TokenRows& to, std::int64_t first, int count, std::int64_t column, int head_dim) {
  const int l = lane_id();
  __syncwarp();
#pragma unroll
  for (int i = 0; i < D / 8; ++i) {
    *reinterpret_cast<uint32_t*>(tile + piece_at(row + l / 4, i * 8) + l % 4 * 4) = pack(sums[i][0] * factor0, sums[i][1] * factor0);
    *reinterpret_cast<uint32_t*>(tile + piece_at(row + l / 4 + 8, i * 8) + l % 4 * 4) = pack(sums[i][2] * factor1, sums[i][3] * factor1);
  }
  __syncwarp();
  constexpr int kPieces = D / 8;
  for (int i = l; i < 16 * kPieces; i += 32) {
    const int r = i / kPieces, c = i % kPieces * 8;
    if (r < count && c < head_dim)
      *reinterpret_cast<uint4*>(to.at<__nv_bfloat16>(first + r, column + c)) = *reinterpret_cast<const uint4*>(tile + piece_at(row + r, c));
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline uint32_t descriptor(uint32_t tile) { return ptx::descriptor(tile, kPanel); }
using ptx::begin_products;
using ptx::commit_products;
using ptx::issue_columns;
using ptx::issue_rows;
using ptx::pin;
using ptx::wait_for_products;

#else

__device__ inline void begin_products() {}
__device__ inline void commit_products() {}
__device__ inline void wait_for_products() {}
template <int N>
__device__ inline void pin(float (&)[N][4]) {}

__device__ inline uint32_t swizzled_by_rows(uint32_t tile, int row, int column) {
  return tile + piece_at(row + lane_id() % 16, column + lane_id() / 16 * 8);
}
__device__ inline uint32_t swizzled_by_halves(uint32_t tile, int row, int column) {
  return tile + piece_at(row + lane_id() / 16 * 8 + lane_id() % 8, column + lane_id() / 8 % 2 * 8);
}

#endif

// c [64 × 64] = a · bᵀ of two tiles. On its way until wait_for_products.
template <int D>
__device__ inline void product_of_rows(float (&c)[8][4], uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const uint32_t left = descriptor(a), right = descriptor(b);
  issue_rows<0>(c, left, right), issue_rows<32>(c, left, right), issue_rows<64>(c, left, right), issue_rows<96>(c, left, right);
  if constexpr (D > 64) {
    issue_rows<kPanel>(c, left, right), issue_rows<kPanel + 32>(c, left, right), issue_rows<kPanel + 64>(c, left, right);
    issue_rows<kPanel + 96>(c, left, right);
  }
#else
  zero(c);
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const Fragment left = load_matrices(swizzled_by_rows(a, warp_id() % 4 * 16, 16 * k));
#pragma unroll
    for (int n = 0; n < 4; ++n) multiply_add(c[2 * n], c[2 * n + 1], left, load_matrices(swizzled_by_halves(b, 16 * n, 16 * k)));
  }
#endif
}
// c [64 × D] += a · b, a [64 × 64] as left operands of each warp's 16 rows, b a tile. On its way until wait_for_products.
template <int D>
__device__ inline void add_product(float (&c)[D / 8][4], const Fragment (&a)[4], uint32_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const uint32_t right = descriptor(b);
  issue_columns<0>(c, a[0], right), issue_columns<16 * 128>(c, a[1], right);
  issue_columns<32 * 128>(c, a[2], right), issue_columns<48 * 128>(c, a[3], right);
#else
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int n = 0; n < D / 16; ++n) multiply_add(c[2 * n], c[2 * n + 1], a[k], load_matrices_turned(swizzled_by_rows(b, 16 * k, 16 * n)));
#endif
}

// Calls f.template operator()<D, biased>() with the width of the tiles.
template <class F>
void with_tile(const AttentionProblem& p, F&& f) {
  const auto biased = [&]<int D>() {
    if (p.bias || p.relative) f.template operator()<D, true>();
    else f.template operator()<D, false>();
  };
  if (p.head_dim <= 64) biased.template operator()<64>();
  else biased.template operator()<128>();
}

}  // namespace transformer::mma
