// Products of few rows with a large matrix, c [m, n] = activation(a [m, k] · w [n, k]ᵀ + bias): one token of a sequence at a
// time. Such a product is as fast as the matrix can be read, so each of its rows is read once, from the first to the last byte.
#include "backend/cpu/few_rows.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "transformer/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/few_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 16;  // rows of w that stay in cache while all rows of a pass over them

// out[r · kBlock + c] = Σ a[r] · w[c] over k, for kRows rows of a and kCols rows of w. Each sum is one chain of additions however many
// there are, so that it has the same bits in every batch; several of them hide their latency.
template <int kRows, int kCols, class T>
HWY_INLINE void Dot(const float* HWY_RESTRICT a, std::int64_t a_row, const T* HWY_RESTRICT w, std::int64_t w_row, std::int64_t k,
                    float* HWY_RESTRICT out) {
  const DF d;
  const std::int64_t lanes = Lanes();
  VF sum[kRows][kCols];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) sum[r][c] = hn::Zero(d);
  std::int64_t at = 0;
  for (; at + lanes <= k; at += lanes) {
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      const VF weight = Load(w + c * w_row + at);
      // Rows are too short for the processor to see where reading goes on: it is told.
      if constexpr (kRows == 1 && kCols == 8) hwy::Prefetch(w + (c + kCols) * w_row + at);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][c] = hn::MulAdd(Load(a + r * a_row + at), weight, sum[r][c]);
    }
  }
  if (at < k) {  // a is padded with zeros
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      const VF weight = LoadN(w + c * w_row + at, k - at);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r][c] = hn::MulAdd(Load(a + r * a_row + at), weight, sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) out[r * kBlock + c] = hn::GetLane(hn::SumOfLanes(d, sum[r][c]));
}

// kCols rows of w with all of a: three of its rows at a time, whose sums fill the registers of AVX2.
template <int kCols, class T>
HWY_INLINE void Dots(std::int64_t rows, const float* a, std::int64_t a_row, const T* w, std::int64_t w_row, std::int64_t k, float* out) {
  for (; rows >= 3; rows -= 3, a += 3 * a_row, out += 3 * kBlock) Dot<3, kCols>(a, a_row, w, w_row, k, out);
  if (rows == 2) Dot<2, kCols>(a, a_row, w, w_row, k, out);
  if (rows == 1) Dot<1, kCols>(a, a_row, w, w_row, k, out);
}

template <class T>
HWY_INLINE void BlockDots(std::int64_t m, std::int64_t n, const float* a, std::int64_t a_row, const T* w, std::int64_t w_row,
                          std::int64_t k, float* out) {
  std::int64_t j = 0;
  if (m == 1)
    for (; j + 8 <= n; j += 8) Dot<1, 8>(a, a_row, w + j * w_row, w_row, k, out + j);
  for (; j + 4 <= n; j += 4) Dots<4>(m, a, a_row, w + j * w_row, w_row, k, out + j);
  for (; j < n; ++j) Dots<1>(m, a, a_row, w + j * w_row, w_row, k, out + j);
}

template <class T, class B>
void Columns(const FewRows& p, const float* a, std::int64_t a_row, std::int64_t begin, std::int64_t end) {
  const T* w = static_cast<const T*>(p.w);
  const B* bias = static_cast<const B*>(p.bias);
  constexpr std::int64_t kTogether = 24;  // rows of a: their sums stay in cache, and so do they
  float sums[kTogether * kBlock];
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t n = std::min(kBlock, end - first);
    for (std::int64_t row = 0; row < p.m; row += kTogether) {
      const std::int64_t m = std::min(kTogether, p.m - row);
      BlockDots(m, n, a + row * a_row, a_row, w + first * p.w_row, p.w_row, p.k, sums);
      VisitActivation(p.activation, [&](auto activation) HWY_ATTR {
        for (std::int64_t r = 0; r < m; ++r) {
          T* to = static_cast<T*>(p.c) + (row + r) * p.c_row + first;
          ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t some) HWY_ATTR {
            VF slope, x = LoadSome(whole, sums + r * kBlock + i, some);
            if (bias) x = hn::Add(x, LoadSome(whole, bias + first + i, some));
            StoreSome(whole, activation.Apply(x, slope), to + i, some);
          });
        }
      });
    }
  }
}

template <class T>
void Widen(const FewRows& p, std::int64_t a_row, float* to) {
  for (std::int64_t r = 0; r < p.m; ++r) {
    const T* from = static_cast<const T*>(p.a) + r * p.a_row;
    std::fill_n(to + r * a_row + p.k, a_row - p.k, 0.0F);
    ForVectors(p.k, [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR {
      StoreSome(whole, LoadSome(whole, from + i, n), to + r * a_row + i, n);
    });
  }
}

template <class T>
void Product(Context& ctx, const FewRows& p) {
  const std::int64_t a_row = (p.k + 15) / 16 * 16;
  const auto memory = ctx.allocator().allocate(static_cast<std::size_t>(p.m * a_row) * sizeof(float));
  float* a = reinterpret_cast<float*>(memory.get());
  Widen<T>(p, a_row, a);
  const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / p.k);  // columns that are worth another thread
  parallel_for(ctx.threads(), p.n, grain, [&](std::int64_t begin, std::int64_t end) {
    if (p.bias_type == DType::bfloat16) Columns<T, bfloat16>(p, a, a_row, begin, end);
    else Columns<T, float>(p, a, a_row, begin, end);
  });
}

void MultiplyFewRows(Context& ctx, const FewRows& p) {
  if (p.type == DType::bfloat16) Product<bfloat16>(ctx, p);
  else Product<float>(ctx, p);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(MultiplyFewRows);

void multiply_few_rows(Context& ctx, const FewRows& p) { HWY_DYNAMIC_DISPATCH(MultiplyFewRows)(ctx, p); }

}  // namespace transformer
#endif
