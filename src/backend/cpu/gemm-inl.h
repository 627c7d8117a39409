// Products of small matrices that lie packed in cache, for kernels that cannot hand theirs to a library because
// they must not leave the cache between two products. All float32.
#if defined(TRANSFORMER_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_GEMM_INL_H_
#undef TRANSFORMER_GEMM_INL_H_
#else
#define TRANSFORMER_GEMM_INL_H_
#endif

#include <algorithm>

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

// Columns of packed blocks are padded to whole vectors of the widest instruction set.
constexpr std::int64_t kPad = 16;
constexpr std::int64_t Padded(std::int64_t n) { return (n + kPad - 1) / kPad * kPad; }

// The tile of C that is kept in registers: 6 rows × 4 vectors where there are 32 registers, else 6 × 2.
constexpr int kTileRows = 6;
constexpr int kTileVectors = HWY_MAX_BYTES == 64 ? 4 : 2;

// An operand that is read one number at a time, so that any two strides are as good: A or, swapped, Aᵀ.
struct Scalars {
  const float* data;
  std::int64_t row, col;  // elements from one row (column) to the next
};
struct Block {
  float* data;
  std::int64_t row;  // columns are dense
  Block from(std::int64_t first_row) const { return {data + first_row * row, row}; }
  Scalars scalars() const { return {data, row, 1}; }
  Scalars transposed() const { return {data, 1, row}; }
};

// C [kRows, kVectors vectors] = (C if accumulate) + A [kRows, k] · B [k, kVectors vectors], each element summed in
// the order of k.
template <int kRows, int kVectors>
HWY_INLINE void GemmTile(std::int64_t k, Scalars a, const float* HWY_RESTRICT b, std::int64_t b_row, float* HWY_RESTRICT c,
                         std::int64_t c_row, bool accumulate) {
  const DF d;
  const std::int64_t lanes = Lanes();
  VF sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = accumulate ? hn::LoadU(d, c + r * c_row + v * lanes) : hn::Zero(d);
  for (std::int64_t i = 0; i < k; ++i) {
    VF right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const VF left = hn::Set(d, a.data[r * a.row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
    a.data += a.col;
    b += b_row;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[r][v], d, c + r * c_row + v * lanes);
}

// The same for any number of rows.
template <int kVectors>
HWY_NOINLINE void GemmPanel(std::int64_t m, std::int64_t k, Scalars a, const float* b, std::int64_t b_row, float* c, std::int64_t c_row,
                            bool accumulate) {
  for (; m >= kTileRows; m -= kTileRows, a.data += kTileRows * a.row, c += kTileRows * c_row)
    GemmTile<kTileRows, kVectors>(k, a, b, b_row, c, c_row, accumulate);
  switch (m) {
    case 1: return GemmTile<1, kVectors>(k, a, b, b_row, c, c_row, accumulate);
    case 2: return GemmTile<2, kVectors>(k, a, b, b_row, c, c_row, accumulate);
    case 3: return GemmTile<3, kVectors>(k, a, b, b_row, c, c_row, accumulate);
    case 4: return GemmTile<4, kVectors>(k, a, b, b_row, c, c_row, accumulate);
    case 5: return GemmTile<5, kVectors>(k, a, b, b_row, c, c_row, accumulate);
    default: return;
  }
}

// C [m, n] = (C if accumulate) + A [m, k] · B [k, n]. Rows of B and C are read and written up to Padded(n).
HWY_INLINE void Gemm(std::int64_t m, std::int64_t n, std::int64_t k, Scalars a, Block b, Block c, bool accumulate) {
  const std::int64_t lanes = Lanes();
  std::int64_t vectors = (n + lanes - 1) / lanes;
  for (; vectors >= kTileVectors; vectors -= kTileVectors, b.data += kTileVectors * lanes, c.data += kTileVectors * lanes)
    GemmPanel<kTileVectors>(m, k, a, b.data, b.row, c.data, c.row, accumulate);
  if constexpr (kTileVectors > 2) {
    if (vectors == 3) return GemmPanel<3>(m, k, a, b.data, b.row, c.data, c.row, accumulate);
    if (vectors == 2) return GemmPanel<2>(m, k, a, b.data, b.row, c.data, c.row, accumulate);
  }
  if (vectors == 1) GemmPanel<1>(m, k, a, b.data, b.row, c.data, c.row, accumulate);
}

// to [rows, Padded(cols)] = factor · from [rows, cols], padded with zeros.
template <class T>
HWY_INLINE void Pack(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t cols, float factor, Block to) {
  const VF f = hn::Set(DF(), factor);
  for (std::int64_t r = 0; r < rows; ++r, from += from_row, to.data += to.row) {
    ForVectors(cols,
               [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR { Store(hn::Mul(f, LoadSome(whole, from + i, n)), to.data + i); });
    for (std::int64_t i = (cols + Lanes() - 1) / Lanes() * Lanes(); i < Padded(cols); i += Lanes()) Store(hn::Zero(DF()), to.data + i);
  }
}

// to [rows, cols] = factor · from.
template <class T>
HWY_INLINE void Unpack(Block from, std::int64_t rows, std::int64_t cols, float factor, T* to, std::int64_t to_row) {
  const VF f = hn::Set(DF(), factor);
  for (std::int64_t r = 0; r < rows; ++r, from.data += from.row, to += to_row)
    ForVectors(cols,
               [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR { StoreSome(whole, hn::Mul(f, Load(from.data + i)), to + i, n); });
}

#if HWY_TARGET != HWY_SCALAR
// Four neighbours as float32.
using D4 = hn::FixedTag<float, 4>;
template <class T>
HWY_INLINE hn::Vec<D4> Load4(const T* p) {
  const D4 d;
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, p);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const hn::Rebind<std::uint16_t, D4> half;
    const hn::RebindToUnsigned<D4> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p)))));
  } else {
    const hn::Rebind<hwy::float16_t, D4> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
  }
}

// to [cols, 0…3] = four rows, transposed.
template <class T>
HWY_INLINE void PackFourTransposed(const T* from, std::int64_t from_row, std::int64_t cols, Block to) {
  const D4 d;
  const hn::Repartition<std::uint64_t, D4> pairs;
  std::int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const auto a0 = Load4(from + c), a1 = Load4(from + from_row + c), a2 = Load4(from + 2 * from_row + c),
               a3 = Load4(from + 3 * from_row + c);
    const auto b0 = hn::BitCast(pairs, hn::InterleaveLower(d, a0, a1)), b1 = hn::BitCast(pairs, hn::InterleaveUpper(d, a0, a1));
    const auto b2 = hn::BitCast(pairs, hn::InterleaveLower(d, a2, a3)), b3 = hn::BitCast(pairs, hn::InterleaveUpper(d, a2, a3));
    float* HWY_RESTRICT out = to.data + c * to.row;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, b0, b2)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, b0, b2)), d, out + to.row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, b1, b3)), d, out + 2 * to.row);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, b1, b3)), d, out + 3 * to.row);
  }
  for (; c < cols; ++c)
    for (std::int64_t i = 0; i < 4; ++i) to.data[c * to.row + i] = static_cast<float>(from[i * from_row + c]);
}
#endif

// to [cols, Padded(rows)] = from [rows, cols]ᵀ, padded with zeros.
template <class T>
HWY_INLINE void PackTransposed(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t cols, Block to) {
  std::int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; r + 4 <= rows; r += 4) PackFourTransposed(from + r * from_row, from_row, cols, Block{to.data + r, to.row});
#endif
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) to.data[c * to.row + r] = static_cast<float>(from[r * from_row + c]);
  for (; r < Padded(rows); ++r)
    for (std::int64_t c = 0; c < cols; ++c) to.data[c * to.row + r] = 0.0F;
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
