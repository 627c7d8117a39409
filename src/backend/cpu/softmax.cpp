// Softmax and log-softmax over the last dimension, and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// v in the first m lanes, `other` in the rest.
HWY_INLINE VF Only(std::true_type, VF v, std::int64_t, float) { return v; }
HWY_INLINE VF Only(std::false_type, VF v, std::int64_t m, float other) {
  return hn::IfThenElse(hn::FirstN(DF(), static_cast<std::size_t>(m)), v, hn::Set(DF(), other));
}

template <class T>
HWY_INLINE float RowMax(const T* HWY_RESTRICT x, std::int64_t n) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  VF top = hn::Set(DF(), lowest);
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    top = hn::Max(top, Only(whole, LoadSome(whole, x + i, m), m, lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(DF(), top));
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

// A row of -inf has shift 0 and sum 0: its softmax is 0, its log-softmax -inf.
template <class T>
HWY_INLINE void SoftmaxRow(const T* HWY_RESTRICT x, bool log, float* HWY_RESTRICT scratch, T* HWY_RESTRICT y, std::int64_t n) {
  const float top = RowMax(x, n), shift = top == -std::numeric_limits<float>::infinity() ? 0.0F : top;
  if (log) {
    const float sum = RowExp(x, shift, nullptr, n);
    const VF s = hn::Set(DF(), shift), log_sum = hn::Set(DF(), sum == 0.0F ? 0.0F : std::log(sum));
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, hn::Sub(hn::Sub(LoadSome(whole, x + i, m), s), log_sum), y + i, m);
    });
  } else {
    const float sum = RowExp(x, shift, scratch, n);
    const VF factor = hn::Set(DF(), sum == 0.0F ? 0.0F : 1.0F / sum);
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, hn::Mul(LoadSome(whole, scratch + i, m), factor), y + i, m);
    });
  }
}

// softmax: dx = y·(dy - Σ y·dy); log-softmax: dx = dy - exp(y)·Σ dy
template <class T>
HWY_INLINE void SoftmaxBackwardRow(const T* HWY_RESTRICT y, const T* HWY_RESTRICT dy, bool log, T* HWY_RESTRICT dx, std::int64_t n) {
  VF dot = hn::Zero(DF());
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF g = LoadSome(whole, dy + i, m);
    dot = log ? hn::Add(dot, g) : hn::MulAdd(g, LoadSome(whole, y + i, m), dot);
  });
  const VF sum = hn::Set(DF(), hn::GetLane(hn::SumOfLanes(DF(), dot)));
  ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF out = LoadSome(whole, y + i, m), g = LoadSome(whole, dy + i, m);
    StoreSome(whole, log ? hn::NegMulAdd(Exp(out), sum, g) : hn::Mul(out, hn::Sub(g, sum)), dx + i, m);
  });
}

void SoftmaxRows(Context& ctx, const Tensor& x, bool log, Tensor& y) {
  visit_float("softmax", x.dtype(), [&]<class T>() {
    const std::int64_t cols = x.cols(), x_stride = x.row_stride(), y_stride = y.row_stride();
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    parallel_for(ctx.threads(), x.rows(), 1 + 8192 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      std::vector<float> scratch(static_cast<std::size_t>(cols));
      for (std::int64_t row = begin; row < end; ++row) SoftmaxRow(from + row * x_stride, log, scratch.data(), to + row * y_stride, cols);
    });
  });
}

void SoftmaxBackwardRows(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) {
  visit_float("softmax_backward", y.dtype(), [&]<class T>() {
    const std::int64_t cols = y.cols(), y_stride = y.row_stride(), dy_stride = dy.row_stride(), dx_stride = dx.row_stride();
    const T *out = y.data<T>(), *dys = dy.data<T>();
    T* to = dx.mutable_data<T>();
    parallel_for(ctx.threads(), y.rows(), 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t row = begin; row < end; ++row)
        SoftmaxBackwardRow(out + row * y_stride, dys + row * dy_stride, log, to + row * dx_stride, cols);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(SoftmaxRows);
HWY_EXPORT(SoftmaxBackwardRows);

void CpuKernels::softmax(Context& ctx, const Tensor& x, bool log, Tensor& y) { HWY_DYNAMIC_DISPATCH(SoftmaxRows)(ctx, x, log, y); }

void CpuKernels::softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(SoftmaxBackwardRows)(ctx, y, dy, log, dx);
}

}  // namespace transformer
#endif
