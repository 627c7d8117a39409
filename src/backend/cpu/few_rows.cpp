// Products of few rows with a large matrix, c [m, n] = activation(a [m, k] · w [n, k]ᵀ + bias): one token of a sequence at a
// time. Such a product is as fast as the matrix can be read, so each of its rows is read once, from the first to the last byte.
#include "backend/cpu/few_rows.h"

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

constexpr std::int64_t kBlock = 16;                      // rows of w that stay in cache while all rows of a pass over them
constexpr int kWide = hn::MaxLanes(DF()) >= 16 ? 2 : 1;  // rows of w at a time: AVX-512 has registers for the sums of two

// out[r · kBlock + c] = Σ a[r] · w[c] over k, for kRows rows of a and kCols rows of w. Each sum has two chains of additions, however many
// there are: so it has the same bits in every batch. Several sums hide their latency.
template <int kRows, int kCols, class T>
HWY_INLINE void Dot(const float* HWY_RESTRICT a, std::int64_t a_row, const T* HWY_RESTRICT w, std::int64_t w_row, std::int64_t k,
                    float* HWY_RESTRICT out) {
  const DF d;
  const std::int64_t lanes = Lanes();
  VF sum[kRows][kCols][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) sum[r][c][0] = sum[r][c][1] = hn::Zero(d);
  std::int64_t at = 0;
  for (; at + 2 * lanes <= k; at += 2 * lanes) {
#pragma GCC unroll 4
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
      for (int c = 0; c < kCols; ++c) {
        const VF weight = Load(w + c * w_row + at + i * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[r][c][i] = hn::MulAdd(Load(a + r * a_row + at + i * lanes), weight, sum[r][c][i]);
      }
    }
  }
  for (; at < k; at += lanes) {  // a is padded with zeros
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) {
      const VF weight = at + lanes <= k ? Load(w + c * w_row + at) : LoadN(w + c * w_row + at, k - at);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r][c][0] = hn::MulAdd(Load(a + r * a_row + at), weight, sum[r][c][0]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < kCols; ++c) out[r * kBlock + c] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum[r][c][0], sum[r][c][1])));
}

template <int kCols, class T>
HWY_INLINE void Dots(std::int64_t rows, const float* a, std::int64_t a_row, const T* w, std::int64_t w_row, std::int64_t k, float* out) {
  for (; rows >= 4; rows -= 4, a += 4 * a_row, out += 4 * kBlock) Dot<4, kCols>(a, a_row, w, w_row, k, out);
  if (rows == 3) Dot<3, kCols>(a, a_row, w, w_row, k, out);
  if (rows == 2) Dot<2, kCols>(a, a_row, w, w_row, k, out);
  if (rows == 1) Dot<1, kCols>(a, a_row, w, w_row, k, out);
}

template <class T, class B>
void Columns(const FewRows& p, const float* a, std::int64_t a_row, std::int64_t begin, std::int64_t end) {
  const T* w = static_cast<const T*>(p.w);
  const B* bias = static_cast<const B*>(p.bias);
  float sums[few_rows * kBlock];
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t n = std::min(kBlock, end - first);
    for (std::int64_t row = 0; row < p.m; row += few_rows) {
      const std::int64_t m = std::min(few_rows, p.m - row);
      std::int64_t j = 0;
      for (; j + kWide <= n; j += kWide) Dots<kWide>(m, a + row * a_row, a_row, w + (first + j) * p.w_row, p.w_row, p.k, sums + j);
      for (; j < n; ++j) Dots<1>(m, a + row * a_row, a_row, w + (first + j) * p.w_row, p.w_row, p.k, sums + j);
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
