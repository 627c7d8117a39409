#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"
#include "transformer/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

constexpr std::int64_t kBlock = 4096;  // lanes add up in float32 over a block, blocks add up in float64

// The largest value of a row, four vectors at a time so that they need not wait for each other.
template <class T>
HWY_INLINE float RowMax(const T* HWY_RESTRICT row, std::int64_t n) {
  const std::int64_t lanes = Lanes();
  VF a = hn::Set(DF(), -INFINITY), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Max(a, Load(row + i));
    b = hn::Max(b, Load(row + i + lanes));
    c = hn::Max(c, Load(row + i + 2 * lanes));
    d = hn::Max(d, Load(row + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Max(a, Load(row + i));
  float max = hn::GetLane(hn::MaxOfLanes(DF(), hn::Max(hn::Max(a, b), hn::Max(c, d))));
  for (; i < n; ++i) max = std::max(max, static_cast<float>(row[i]));
  return max;
}

template <class T>
HWY_INLINE double RowSum(const T* HWY_RESTRICT row, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    VF block = hn::Zero(DF());
    ForVectors(std::min(kBlock, n - begin),
               [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { block = hn::Add(block, LoadSome(whole, row + begin + i, m)); });
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(DF(), block)));
  }
  return sum;
}

// Σ exp(z - max); the exponentials go to e, which may be the row itself, unless it is null.
template <class T>
HWY_INLINE double RowExpSum(const T* row, std::int64_t n, float max, float* e) {
  const VF top = hn::Set(DF(), max);
  double sum = 0.0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    VF block = hn::Zero(DF());
    ForVectors(std::min(kBlock, n - begin), [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      VF v = ExpOfNegative(hn::Sub(LoadSome(whole, row + begin + i, m), top));
      if constexpr (!decltype(whole)::value) v = hn::IfThenElseZero(hn::FirstN(DF(), static_cast<std::size_t>(m)), v);
      if (e != nullptr) StoreSome(whole, v, e + begin + i, m);
      block = hn::Add(block, v);
    });
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(DF(), block)));
  }
  return sum;
}

// One row: with p = softmax(z), loss = -(1-ε)·log p_t - ε·mean(log p). When `work` [n] is given, the row is replaced
// by its gradient p - (1-ε)·onehot(t) - ε/n times scale.
template <class T>
HWY_INLINE double RowLoss(T* row, std::int64_t n, std::int64_t target, double smoothing, float* work, double scale) {
  const auto classes = static_cast<double>(n);
  const float max = RowMax(row, n);
  const double top = max, at_target = static_cast<float>(row[target]);
  double loss = (1.0 - smoothing) * (top - at_target);
  if (smoothing != 0.0) loss += smoothing * (top - RowSum(row, n) / classes);
  const double sum = RowExpSum(row, n, max, work);
  loss += std::log(sum);
  if (work == nullptr) return loss;

  const VF factor = hn::Set(DF(), static_cast<float>(scale / sum));
  const VF uniform = hn::Set(DF(), static_cast<float>(scale * smoothing / classes));
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    StoreSome(whole, hn::MulSub(LoadSome(whole, work + i, m), factor, uniform), row + i, m);
  });
  // The target's own entry anew: subtracting from the rounded p would lose digits where p is near 1.
  const double p = std::exp(at_target - top) / sum;
  row[target] = static_cast<T>(static_cast<float>(scale * (p - (1.0 - smoothing) - smoothing / classes)));
  return loss;
}

template <class T, class Index>
void Rows(Context& ctx, T* logits, std::int64_t rows, std::int64_t cols, std::int64_t stride, const Index* targets, std::int64_t ignore,
          float smoothing, bool want_gradient, float scale, float* losses) {
  parallel_for(ctx.threads(), rows, 1 + 16384 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    constexpr bool in_place = std::is_same_v<T, float>;  // narrower rows cannot hold the exponentials
    std::vector<float> buffer(want_gradient && !in_place ? static_cast<std::size_t>(cols) : 0);
    for (std::int64_t r = begin; r < end; ++r) {
      T* row = logits + r * stride;
      const auto target = static_cast<std::int64_t>(targets[r]);
      if (target != ignore) {
        float* work = nullptr;
        if (want_gradient) {
          if constexpr (in_place) work = row;
          else work = buffer.data();
        }
        losses[r] = static_cast<float>(RowLoss(row, cols, target, smoothing, work, scale));
      } else {
        losses[r] = 0.0F;
        if (want_gradient) std::fill_n(row, cols, T(0.0F));
      }
    }
  });
}

void CrossEntropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing, bool want_gradient,
                  float scale, Tensor& losses) {
  visit_float("cross_entropy", logits.dtype(), [&]<class T>() HWY_ATTR {
    visit_index("cross_entropy", targets.dtype(), [&]<class Index>() HWY_ATTR {
      T* z = want_gradient ? logits.mutable_data<T>() : const_cast<T*>(logits.data<T>());  // only read without gradient
      Rows(ctx, z, logits.rows(), logits.cols(), logits.row_stride(), targets.data<Index>(), ignore, smoothing, want_gradient, scale,
           losses.mutable_data<float>());
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(CrossEntropy);

namespace {

std::int64_t divisor_of(const Tensor& count) { return count.defined() ? std::max<std::int64_t>(*count.data<std::int64_t>(), 1) : 1; }

}  // namespace

// Many threads read the weights faster than they come from memory: more rows at a time then, which read them less often.
Tensor CpuKernels::logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) {
  const std::int64_t bytes = std::int64_t{std::max(32, 4 * ctx.threads())} << 20;
  const std::int64_t within = bytes / (std::max<std::int64_t>(classes, 1) * size_of(dtype));
  return Tensor::empty(ctx, {std::min(rows, std::max<std::int64_t>(within / 64 * 64, 64)), classes}, dtype);
}

void CpuKernels::count_targets(Context&, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                               Tensor& count) {
  visit_index(op, targets.dtype(), [&]<class Index>() {
    const Index* values = targets.data<Index>();
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < targets.numel(); ++i) {
      const auto t = static_cast<std::int64_t>(values[i]);
      if (t == ignore) continue;
      if (t < 0 || t >= classes) fail(op, "target {} at position {} is outside [0, {}) and is not the ignored {}", t, i, classes, ignore);
      ++counted;
    }
    *count.mutable_data<std::int64_t>() = counted;
  });
}

void CpuKernels::cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing,
                               bool want_gradient, const Tensor& count, Tensor& losses) {
  const float scale = 1.0F / static_cast<float>(divisor_of(count));
  HWY_DYNAMIC_DISPATCH(CrossEntropy)(ctx, logits, targets, ignore, smoothing, want_gradient, scale, losses);
}

void CpuKernels::total_loss(Context&, const Tensor& losses, const Tensor& count, Tensor& loss) {
  const float* values = losses.data<float>();
  double sum = 0.0;
  for (std::int64_t i = 0; i < losses.numel(); ++i) sum += static_cast<double>(values[i]);
  *loss.mutable_data<float>() = static_cast<float>(sum / static_cast<double>(divisor_of(count)));
}
}  // namespace transformer
#endif
