// Softmax and log-softmax over the last dimension, and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/softmax-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// The softmax of a row of -inf is 0.
template <class T>
HWY_INLINE void SoftmaxRow(const T* HWY_RESTRICT x, bool log, float* HWY_RESTRICT scratch, T* HWY_RESTRICT y, std::int64_t n) {
  const VF lane_max = LaneMax(x, n);
  if (log) {
    const LogSoftmax of(x, lane_max, n);
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, of(LoadSome(whole, x + i, m)), y + i, m); });
  } else {
    const float top = hn::GetLane(hn::MaxOfLanes(DF(), lane_max)), sum = RowExp(x, top == kLowest ? 0.0F : top, scratch, n);
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
