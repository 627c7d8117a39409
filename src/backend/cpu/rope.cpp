// Rotary positions: each pair (a, b) of a head's dimensions is turned by its angle at the token's position,
//   (a, b) → (a·cos - b·sin, b·cos + a·sin)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// Pairs (i, i + half).
template <class T>
HWY_INLINE void TurnHalves(const T* HWY_RESTRICT x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin, T* HWY_RESTRICT y,
                           std::int64_t half) {
  ForVectors(half, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF a = LoadSome(whole, x + i, m), b = LoadSome(whole, x + half + i, m);
    const VF c = LoadSome(whole, cos + i, m), s = LoadSome(whole, sin + i, m);
    StoreSome(whole, hn::NegMulAdd(b, s, hn::Mul(a, c)), y + i, m);
    StoreSome(whole, hn::MulAdd(a, s, hn::Mul(b, c)), y + half + i, m);
  });
}

// Pairs (2i, 2i + 1), with the cosines doubled (c, c) and the sines doubled and signed (-s, s): y = x·cos + swapped(x)·sin.
template <class T>
HWY_INLINE void TurnNeighbours(const T* HWY_RESTRICT x, const float* HWY_RESTRICT cos, const float* HWY_RESTRICT sin, T* HWY_RESTRICT y,
                               std::int64_t n) {
#if HWY_TARGET == HWY_SCALAR  // one lane: nothing to swap within a vector
  for (std::int64_t i = 0; i < n; ++i) y[i] = T(static_cast<float>(x[i]) * cos[i] + static_cast<float>(x[i ^ 1]) * sin[i]);
#else
  ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF v = LoadSome(whole, x + i, m);
    StoreSome(whole, hn::MulAdd(hn::Shuffle2301(v), LoadSome(whole, sin + i, m), hn::Mul(v, LoadSome(whole, cos + i, m))), y + i, m);
  });
#endif
}

void RopeRows(Context& ctx, const Tensor& x, const Kernels::RopeArgs& args, Tensor& y) {
  visit_float("rope", x.dtype(), [&]<class T>() {
    const std::int64_t cols = x.cols(), x_stride = x.row_stride(), y_stride = y.row_stride();
    const std::int64_t rotary = args.rotary_dim, half = rotary / 2, turned = args.heads * args.head_dim;
    const std::int64_t cos_stride = args.cos.row_stride(), sin_stride = args.sin.row_stride();
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    const float *cos_table = args.cos.data<float>(), *sin_table = args.sin.data<float>();
    const std::int32_t* position = args.position.data<std::int32_t>();
    const bool interleaved = args.pairs == RopePairs::interleaved;
    const float direction = args.inverse ? -1.0F : 1.0F;
    auto copy = [](const T* a, T* b, std::int64_t n) {
      if (n > 0) std::memcpy(static_cast<void*>(b), a, static_cast<std::size_t>(n) * sizeof(T));
    };
    parallel_for(ctx.threads(), x.rows(), 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      std::vector<float> cos(static_cast<std::size_t>(rotary)), sin(cos.size());  // of one token, as the loops over heads want them
      for (std::int64_t row = begin; row < end; ++row) {
        const float* c = cos_table + position[row] * cos_stride;
        const float* s = sin_table + position[row] * sin_stride;
        for (std::int64_t i = 0; i < half; ++i) {
          const auto a = static_cast<std::size_t>(interleaved ? 2 * i : i),
                     b = static_cast<std::size_t>(interleaved ? 2 * i + 1 : half + i);
          cos[a] = cos[b] = c[i];
          sin[b] = direction * s[i];
          sin[a] = interleaved ? -sin[b] : sin[b];
        }
        const T* in = from + row * x_stride;
        T* out = to + row * y_stride;
        for (std::int64_t head = 0; head < args.heads; ++head, in += args.head_dim, out += args.head_dim) {
          if (interleaved) TurnNeighbours(in, cos.data(), sin.data(), out, rotary);
          else TurnHalves(in, cos.data(), sin.data(), out, half);
          copy(in + rotary, out + rotary, args.head_dim - rotary);
        }
        copy(in, out, cols - turned);
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(RopeRows);

void CpuKernels::rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y) {
  const std::int32_t* position = args.position.data<std::int32_t>();
  for (std::int64_t i = 0; i < args.position.numel(); ++i)
    if (position[i] < 0 || position[i] >= args.cos.dim(0))
      fail("rope", "position {} of token {} is out of range: the table has {} positions", position[i], i, args.cos.dim(0));
  HWY_DYNAMIC_DISPATCH(RopeRows)(ctx, x, args, y);
}

}  // namespace transformer
#endif
