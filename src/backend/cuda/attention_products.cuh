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

// tile = rows first … of one head; zeros beyond `count` rows and head_dim columns. All threads of the block take part.
template <int D>
__device__ inline void load_tile(uint32_t tile, const TokenRows& from, std::int64_t first, const std::int32_t* listed, int count,
                                 std::int64_t column, int head_dim) {
  constexpr int kPieces = D / 8;
  for (int i = static_cast<int>(threadIdx.x); i < 64 * kPieces; i += static_cast<int>(blockDim.x)) {
    const int r = i / kPieces, c = i % kPieces * 8;
    const bool there = r < count && c < head_dim;
    const std::int64_t row = !there ? 0 : listed ? listed[first + r] : first + r;
    copy_async(tile + piece_at(r, c), from.at<__nv_bfloat16>(row, there ? column + c : 0), there);
  }
}
// Copies of this thread have arrived, and are seen by the matrix units after the next barrier.
__device__ inline void finish_copies() {
  wait_for_copies();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
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

// How wgmma finds an operand: its address, the distance of panels and of groups of eight rows, 128-byte exchange of pieces.
__device__ inline std::uint64_t descriptor(uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4) | std::uint64_t{kPanel >> 4} << 16 | std::uint64_t{1024 >> 4} << 32 |
      std::uint64_t{1} << 62;
}
// c (+)= a · bᵀ, 16 columns of both; c += a · b, a from registers, 16 rows of b.
__device__ inline void issue_rows(float (&c)[8][4], std::uint64_t a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, "
      "p, 1, 1, 0, 0;\n}"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
        "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
        "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
      : "l"(a), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void issue_columns(float (&c)[8][4], const Fragment& a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, p, 1, 1, 1;\n}"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
        "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
        "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(add ? 1 : 0));
}
__device__ inline void issue_columns(float (&c)[16][4], const Fragment& a, std::uint64_t b, bool add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%"
      "35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, p, 1, 1, 1;\n}"
      : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]),
        "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]),
        "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3]),
        "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]), "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]),
        "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]),
        "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3]),
        "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]), "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "l"(b), "r"(add ? 1 : 0));
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
// Keeps uses of c behind the wait, or before what is issued next.
template <int N>
__device__ inline void pin(float (&c)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])::"memory");
}

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
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    const uint32_t at = static_cast<uint32_t>(k / 4 * kPanel + k % 4 * 32);
    issue_rows(c, descriptor(a + at), descriptor(b + at), k > 0);
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
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    issue_columns(c, a[k], descriptor(b + static_cast<uint32_t>(k * 16 * 128)), true);
#else
#pragma unroll
    for (int n = 0; n < D / 16; ++n) multiply_add(c[2 * n], c[2 * n + 1], a[k], load_matrices_turned(swizzled_by_rows(b, 16 * k, 16 * n)));
#endif
  }
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
