// Random numbers: every one is a function of the stream and its place in the tensor, never of the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

// The upper 24 bits of each word as a number in [0, 1).
HWY_INLINE VF UnitInterval(VU words) {
  const hn::RebindToSigned<DF> di;
  return hn::Mul(hn::ConvertTo(DF(), hn::BitCast(di, hn::ShiftRight<8>(words))), hn::Set(DF(), 0x1p-24F));
}

// Fills y with groups of 64 numbers made from the 64 words of the stream's group: make(words, out).
template <class Make>
void FillGroups(Context& ctx, const RandomStream& stream, Tensor& y, Make make) {
  float* to = y.mutable_data<float>();
  for_row_pieces(ctx, common_rows(y),
                 [=, cols = y.cols(), stride = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
    HWY_ALIGN std::uint32_t words[64];
    HWY_ALIGN float group[64];
    for (std::int64_t done = 0; done < n;) {
      const auto element = static_cast<std::uint64_t>(row * cols + first + done);
      const auto skip = static_cast<std::int64_t>(element % 64);
      const std::int64_t count = std::min<std::int64_t>(64 - skip, n - done);
      PhiloxGroup(stream, element / 64, words);
      make(words, group);
      std::memcpy(to + row * stride + first + done, group + skip, static_cast<std::size_t>(count) * sizeof(float));
      done += count;
    }
  });
}

void FillUniform(Context& ctx, const RandomStream& stream, float low, float high, Tensor& y) {
  FillGroups(ctx, stream, y, [=](const std::uint32_t* words, float* out) HWY_ATTR {
    for (std::int64_t i = 0; i < 64; i += Lanes())
      Store(hn::MulAdd(UnitInterval(hn::LoadU(DU(), words + i)), Const(high - low), Const(low)), out + i);
  });
}

// Box–Muller: elements e and e + 16 (e / 16 even) are r·cos θ and r·sin θ with r = √(-2 ln u), θ = 2πv, u in (0, 1]
// from the word of e and v in [0, 1) from the word of e + 16.
void FillNormal(Context& ctx, const RandomStream& stream, float mean, float deviation, Tensor& y) {
  FillGroups(ctx, stream, y, [=](const std::uint32_t* words, float* out) HWY_ATTR {
    for (std::int64_t half = 0; half < 64; half += 32) {
      for (std::int64_t i = half; i < half + 16; i += Lanes()) {
        const VF u = hn::Add(UnitInterval(hn::LoadU(DU(), words + i)), Const(0x1p-24F));
        const VF angle = hn::Mul(UnitInterval(hn::LoadU(DU(), words + i + 16)), Const(6.28318531F));
        const VF r = hn::Mul(hn::Sqrt(hn::Mul(Log(u), Const(-2.0F))), Const(deviation));
        Store(hn::MulAdd(r, Cos(angle), Const(mean)), out + i);
        Store(hn::MulAdd(r, Sin(angle), Const(mean)), out + i + 16);
      }
    }
  });
}

void Dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) {
  visit_float("dropout", x.dtype(), [&]<class T>() HWY_ATTR {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_row_pieces(ctx, common_rows(x, y),
                   [=, cols = x.cols(), xs = x.row_stride(), ys = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n)
                       HWY_ATTR {
      constexpr std::int64_t block = 1024;
      HWY_ALIGN float factor[block];
      const T* a = from + row * xs + first;
      T* b = to + row * ys + first;
      for (std::int64_t done = 0, count = 0; done < n; done += count) {
        const auto element = static_cast<std::uint64_t>(row * cols + first + done);
        count = std::min(n - done, block - static_cast<std::int64_t>(element % 64));  // keeps to whole groups of the stream
        DropoutFactors(args, element, count, factor);
        ForVectors(count, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          StoreSome(whole, hn::Mul(LoadSome(whole, a + done + i, m), LoadSome(whole, factor + i, m)), b + done + i, m);
        });
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {

HWY_EXPORT(FillUniform);
HWY_EXPORT(FillNormal);
HWY_EXPORT(Dropout);

void CpuKernels::uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(FillUniform)(ctx, stream, low, high, y);
}

void CpuKernels::normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(FillNormal)(ctx, stream, mean, deviation, y);
}

void CpuKernels::dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) {
  if (args.p == 0.0F) return copy(ctx, x, y);
  HWY_DYNAMIC_DISPATCH(Dropout)(ctx, x, args, y);
}

}  // namespace transformer
#endif  // HWY_ONCE
