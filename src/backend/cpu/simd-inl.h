// Vector helpers shared by the CPU kernels. Included once per instruction set (see any kernel file), so there
// is not an ordinary include guard. All arithmetic is float32: Load widens, Store rounds.
#if defined(TRANSFORMER_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_SIMD_INL_H_
#undef TRANSFORMER_SIMD_INL_H_
#else
#define TRANSFORMER_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "transformer/core/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;  // 16 lanes at most: the unit of RandomStream
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
HWY_INLINE std::int64_t Lanes() { return static_cast<std::int64_t>(hn::Lanes(DF())); }

// A whole vector from p, as float32.
template <class T>
HWY_INLINE VF Load(const T* p) {
  const DF d;
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, p);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const hn::Rebind<std::uint16_t, DF> half;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(DU(), hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(p)))));
  } else {
    static_assert(std::is_same_v<T, float16>);
    const hn::Rebind<hwy::float16_t, DF> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
  }
}

// A whole vector to p, rounded to nearest even.
template <class T>
HWY_INLINE void Store(VF v, T* p) {
  const DF d;
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(v, d, p);
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const DU du;
    const hn::RebindToSigned<DF> di;
    const hn::Rebind<std::uint16_t, DF> half;
    const auto u = hn::BitCast(du, v);
    const auto top = hn::ShiftRight<16>(u);
    const auto odd = hn::And(top, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(du, 0x7fff))));
    const auto nan = hn::Or(top, hn::Set(du, 0x40));  // a NaN stays a NaN
    const auto bits = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), nan, rounded);
    hn::StoreU(hn::DemoteTo(half, hn::BitCast(di, bits)), half, reinterpret_cast<std::uint16_t*>(p));
  } else {
    static_assert(std::is_same_v<T, float16>);
    const hn::Rebind<hwy::float16_t, DF> half;
    hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(p));
  }
}

// The first n lanes (n < Lanes()); the others are read as zero and not written.
template <class T>
HWY_INLINE VF LoadN(const T* p, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::MaskedLoad(hn::FirstN(DF(), static_cast<std::size_t>(n)), DF(), p);
  } else {
    constexpr std::int64_t most = HWY_MAX_BYTES / sizeof(float);
    if (n < 0 || n > most) __builtin_unreachable();  // some compilers warn of an overflow unless told
    T buffer[most] = {};
    std::memcpy(buffer, p, static_cast<std::size_t>(n) * sizeof(T));
    return Load(buffer);
  }
}
template <class T>
HWY_INLINE void StoreN(VF v, T* p, std::int64_t n) {
  constexpr std::int64_t most = HWY_MAX_BYTES / sizeof(float);
  if (n < 0 || n > most) __builtin_unreachable();
  T buffer[most];
  Store(v, buffer);
  std::memcpy(p, buffer, static_cast<std::size_t>(n) * sizeof(T));
}

// Calls f(i, lanes) over [0, n) in whole vectors (lanes == Lanes()), then once for the rest. Inside, use
// LoadSome / StoreSome, which pick the whole-vector form when they can.
template <class F>
HWY_INLINE void ForVectors(std::int64_t n, F&& f) {
  const std::int64_t lanes = Lanes();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, std::true_type{}, lanes);
  if (i < n) f(i, std::false_type{}, n - i);
}
template <class T>
HWY_INLINE VF LoadSome(std::true_type, const T* p, std::int64_t) {
  return Load(p);
}
template <class T>
HWY_INLINE VF LoadSome(std::false_type, const T* p, std::int64_t n) {
  return LoadN(p, n);
}
template <class T>
HWY_INLINE void StoreSome(std::true_type, VF v, T* p, std::int64_t) {
  Store(v, p);
}
template <class T>
HWY_INLINE void StoreSome(std::false_type, VF v, T* p, std::int64_t n) {
  StoreN(v, p, n);
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
