// Products of few rows with a large matrix, c [m, n] = activation(a [m, k] · w [n, k]ᵀ + bias): one token of a sequence at a
// time. Such a product is as fast as the matrix can be read, so each of its rows is read once, from the first to the last byte.
#include "backend/cpu/few_rows.h"

#include <algorithm>
#include <cstring>
#include <memory>

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
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kCols = 4, kRows = kLanes >= 16 ? 4 : kLanes >= 8 ? 2 : 1;  // of a tile, whose sums fill the registers
constexpr std::int64_t kMuch = 1 << 19;    // bytes of w that do not stay in cache from one product to the next
constexpr std::int64_t kAhead = 16 << 10;  // elements of w, but not more than an eighth of a thread's: the last ones are another thread's

// Lane i of what is returned: the sum of the lanes of v[i]. All are added in the same order, wherever they stand.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE VF SumEach(const VF (&v)[1]) { return v[0]; }
#else
template <int kAll>
HWY_INLINE VF SumEach(const VF (&v)[kAll]) {
  const DF d;
  const hn::Repartition<std::uint64_t, DF> pairs;
  VF four[kAll / 4];  // in each block of four lanes: the block's sums of v[4i] … v[4i + 3]
#pragma GCC unroll 4
  for (int i = 0; i < kAll / 4; ++i) {
    const VF *a = &v[4 * i], *b = a + 1, *c = a + 2, *e = a + 3;
    const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, *a, *b), hn::InterleaveUpper(d, *a, *b)));
    const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, *c, *e), hn::InterleaveUpper(d, *c, *e)));
    four[i] = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  }
  if constexpr (kAll == 16) {
    VF eight[2];  // blocks: of four[2i] 0 + 1, of four[2i + 1] 0 + 1, then 2 + 3 of both
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      eight[i] = hn::Add(hn::OddEvenBlocks(four[2 * i + 1], four[2 * i]),
                         hn::SwapAdjacentBlocks(hn::OddEvenBlocks(four[2 * i], four[2 * i + 1])));
    return hn::Add(hn::ConcatLowerLower(d, eight[1], eight[0]), hn::ConcatUpperUpper(d, eight[1], eight[0]));
  } else if constexpr (kAll == 8) {
    return hn::Add(hn::ConcatLowerLower(d, four[1], four[0]), hn::ConcatUpperUpper(d, four[1], four[0]));
  } else {
    static_assert(kAll == 4);
    return four[0];
  }
}
#endif

// out[r · kBlock + c] = Σ a[r] · w[c] over k, for some rows of a and some rows of w. Each sum is made in the same order however many
// there are, so that it has the same bits in every batch; several of them hide their latency. Rows are too short for the processor to see
// where reading goes on: kFetch tells it, in the order in which w lies in memory, and long before, into the second cache: the first one has
// no room for so much.
template <int kSomeRows, int kSomeCols, bool kFetch, class T>
HWY_INLINE void Dot(const float* HWY_RESTRICT a, std::int64_t a_row, const T* HWY_RESTRICT w, std::int64_t w_row, std::int64_t k,
                    std::int64_t ahead, float* HWY_RESTRICT out) {
  const DF d;
  VF sum[kSomeRows][kSomeCols];
#pragma GCC unroll 16
  for (int r = 0; r < kSomeRows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kSomeCols; ++c) sum[r][c] = hn::Zero(d);
  const auto add = [&](std::int64_t at, auto load) HWY_ATTR {
    VF left[kSomeRows];
#pragma GCC unroll 16
    for (int r = 0; r < kSomeRows; ++r) left[r] = Load(a + r * a_row + at);
    if constexpr (kFetch) {
      constexpr int kLine = 64 / sizeof(T);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes * kSomeCols; i += kLine) __builtin_prefetch(w + ahead + at * kSomeCols + i, 0, 2);
    }
#pragma GCC unroll 16
    for (int c = 0; c < kSomeCols; ++c) {
      const VF weight = load(w + c * w_row + at);
#pragma GCC unroll 16
      for (int r = 0; r < kSomeRows; ++r) sum[r][c] = hn::MulAdd(left[r], weight, sum[r][c]);
    }
  };
  std::int64_t at = 0;
  for (; at + kLanes <= k; at += kLanes) add(at, [](const T* p) HWY_ATTR { return Load(p); });
  if (at < k) add(at, [&](const T* p) HWY_ATTR { return LoadN(p, k - at); });  // a is padded with zeros
  constexpr int kAll = kSomeRows * kSomeCols;
  float sums[(kAll + kLanes - 1) / kLanes * kLanes];
#pragma GCC unroll 4
  for (int first = 0; first < kAll; first += kLanes) {
    VF some[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) some[i] = first + i < kAll ? sum[(first + i) / kSomeCols][(first + i) % kSomeCols] : hn::Zero(d);
    hn::StoreU(SumEach(some), d, sums + first);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kSomeRows; ++r) std::memcpy(out + r * kBlock, sums + r * kSomeCols, kSomeCols * sizeof(float));
}

// Some rows of w with all of a, of which the first ones fetch what comes next.
template <int kSomeCols, bool kFetch, class T>
HWY_INLINE void Dots(std::int64_t rows, const float* a, std::int64_t a_row, const T* w, std::int64_t w_row, std::int64_t k,
                     std::int64_t ahead, float* out) {
  if (kFetch && rows >= kRows) {
    Dot<kRows, kSomeCols, true>(a, a_row, w, w_row, k, ahead, out);
    return Dots<kSomeCols, false>(rows - kRows, a + kRows * a_row, a_row, w, w_row, k, ahead, out + kRows * kBlock);
  }
  for (; rows >= kRows; rows -= kRows, a += kRows * a_row, out += kRows * kBlock)
    Dot<kRows, kSomeCols, false>(a, a_row, w, w_row, k, ahead, out);
  if constexpr (kRows > 2) {
    if (rows == 3) return Dot<3, kSomeCols, kFetch>(a, a_row, w, w_row, k, ahead, out);
    if (rows == 2) return Dot<2, kSomeCols, kFetch>(a, a_row, w, w_row, k, ahead, out);
  }
  if (rows == 1) Dot<1, kSomeCols, kFetch>(a, a_row, w, w_row, k, ahead, out);
}

template <bool kFetch, class T>
HWY_INLINE void BlockDots(std::int64_t m, std::int64_t n, const float* a, std::int64_t a_row, const T* w, std::int64_t w_row,
                          std::int64_t k, std::int64_t ahead, float* out) {
  std::int64_t j = 0;
  if (m == 1)
    for (; j + 8 <= n; j += 8) Dot<1, 8, kFetch>(a, a_row, w + j * w_row, w_row, k, ahead, out + j);
  for (; j + kCols <= n; j += kCols) Dots<kCols, kFetch>(m, a, a_row, w + j * w_row, w_row, k, ahead, out + j);
  static_assert(kCols == 4);
  if (n - j == 3) Dots<3, kFetch>(m, a, a_row, w + j * w_row, w_row, k, ahead, out + j);
  if (n - j == 2) Dots<2, kFetch>(m, a, a_row, w + j * w_row, w_row, k, ahead, out + j);
  if (n - j == 1) Dots<1, kFetch>(m, a, a_row, w + j * w_row, w_row, k, ahead, out + j);
}

// to = from [rows, k] in float32, behind it zeros.
template <class T>
void WidenRows(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t k, float* to, std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    std::fill_n(to + k, to_row - k, 0.0F);
    ForVectors(k, [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR { StoreSome(whole, LoadSome(whole, from + i, n), to + i, n); });
  }
}

template <class T, class B>
void Columns(const FewRows& p, const float* a, std::int64_t a_row, std::int64_t ahead, std::int64_t begin, std::int64_t end) {
  const T* w = static_cast<const T*>(p.w);
  const B* bias = static_cast<const B*>(p.bias);
  constexpr std::int64_t kTogether = 24;  // rows of a: their sums stay in cache, and so do they
  float sums[kTogether * kBlock];
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t n = std::min(kBlock, end - first);
    const T* block = w + first * p.w_row;
    for (std::int64_t row = 0; row < p.m; row += kTogether) {
      const std::int64_t m = std::min(kTogether, p.m - row);
      const float* rows = a + row * a_row;
      if (ahead > 0 && row == 0) BlockDots<true>(m, n, rows, a_row, block, p.w_row, p.k, ahead, sums);
      else BlockDots<false>(m, n, rows, a_row, block, p.w_row, p.k, 0, sums);
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
void Product(Context& ctx, const FewRows& p) {
  std::int64_t a_row = p.a_row;
  const float* a = static_cast<const float*>(p.a);
  std::shared_ptr<std::byte> memory;
  if (!std::is_same_v<T, float> || p.k % kLanes != 0) {
    a_row = (p.k + 15) / 16 * 16;
    memory = ctx.allocator().allocate(static_cast<std::size_t>(p.m * a_row) * sizeof(float));
    float* to = reinterpret_cast<float*>(memory.get());
    WidenRows(static_cast<const T*>(p.a), p.a_row, p.m, p.k, to, a_row);
    a = to;
  }
  // Blocks of columns that are worth another thread.
  const std::int64_t blocks = (p.n + kBlock - 1) / kBlock, work = kBlock * p.k * ((p.m + kRows - 1) / kRows);
  const bool fetch = p.n * p.k * static_cast<std::int64_t>(sizeof(T)) >= kMuch;
  const std::int64_t ahead = fetch ? std::min(kAhead, p.n * p.k / ctx.threads() / 8) : 0;
  parallel_for(ctx.threads(), blocks, std::max<std::int64_t>(1, (1 << 15) / work), [&](std::int64_t begin, std::int64_t end) {
    begin *= kBlock, end = std::min(end * kBlock, p.n);
    if (p.bias_type == DType::bfloat16) Columns<T, bfloat16>(p, a, a_row, ahead, begin, end);
    else Columns<T, float>(p, a, a_row, ahead, begin, end);
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
