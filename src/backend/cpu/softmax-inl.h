// Greatest values and sums of exponentials of rows: what softmax.cpp and top_k.cpp share.
#if defined(TRANSFORMER_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_SOFTMAX_INL_H_
#undef TRANSFORMER_SOFTMAX_INL_H_
#else
#define TRANSFORMER_SOFTMAX_INL_H_
#endif

#include <cmath>
#include <limits>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// v in the first m lanes, `other` in the rest.
HWY_INLINE VF Only(std::true_type, VF v, std::int64_t, float) { return v; }
HWY_INLINE VF Only(std::false_type, VF v, std::int64_t m, float other) {
  return hn::IfThenElse(hn::FirstN(DF(), static_cast<std::size_t>(m)), v, hn::Set(DF(), other));
}

// The greatest value of each lane, over all vectors of the row.
template <class T>
HWY_INLINE VF LaneMax(const T* HWY_RESTRICT x, std::int64_t n) {
  VF top = hn::Set(DF(), kLowest);
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    top = hn::Max(top, Only(whole, LoadSome(whole, x + i, m), m, kLowest));
  });
  return top;
}

// Σ exp(x - shift); the exponentials are kept in e when there is one.
template <class T>
HWY_INLINE float RowExp(const T* HWY_RESTRICT x, float shift, float* HWY_RESTRICT e, std::int64_t n) {
  const VF s = hn::Set(DF(), shift);
  VF sum = hn::Zero(DF());
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF v = Exp(hn::Sub(LoadSome(whole, x + i, m), s));
    if (e != nullptr) StoreSome(whole, v, e + i, m);
    sum = hn::Add(sum, Only(whole, v, m, 0.0F));
  });
  return hn::GetLane(hn::SumOfLanes(DF(), sum));
}

// log softmax(x) = (x - shift) - log Σ exp(x - shift). A row of -inf has shift 0 and sum 0, and stays -inf.
struct LogSoftmax {
  VF shift, log_sum;
  template <class T>
  HWY_INLINE LogSoftmax(const T* HWY_RESTRICT x, VF lane_max, std::int64_t n) {
    const float top = hn::GetLane(hn::MaxOfLanes(DF(), lane_max)), by = top == kLowest ? 0.0F : top, sum = RowExp(x, by, nullptr, n);
    shift = hn::Set(DF(), by), log_sum = hn::Set(DF(), sum == 0.0F ? 0.0F : std::log(sum));
  }
  HWY_INLINE VF operator()(VF x) const { return hn::Sub(hn::Sub(x, shift), log_sum); }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
