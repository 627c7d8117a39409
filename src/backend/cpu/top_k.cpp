// The largest of each row, or of its log-softmax, which is not written: two passes over the row, and a third that seldom stops.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/top_k.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "backend/cpu/kernels.h"
#include "backend/cpu/softmax-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

// What is at least the k-th largest of the row: of its lanes' greatest values each is in the row.
HWY_INLINE float AtLeast(VF lane_max, std::int64_t k) {
  float top[16];
  hn::StoreU(hn::IfThenElse(hn::IsNaN(lane_max), hn::Set(DF(), kLowest), lane_max), DF(), top);
  if (k > Lanes()) return kLowest;
  std::nth_element(top, top + k - 1, top + Lanes(), std::greater<>());
  return top[k - 1];
}

template <class T>
void BestOfRow(const T* HWY_RESTRICT x, std::int64_t n, std::int64_t k, bool log, float* values, std::int32_t* ids) {
  const VF lane_max = LaneMax(x, n);
  const auto find = [&](auto changed) HWY_ATTR {
    std::int64_t found = 0;
    float least = AtLeast(changed(lane_max), k);  // what a value must reach, and, when all k are found, exceed
    ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      const VF v = Only(whole, changed(LoadSome(whole, x + i, m)), m, kLowest);
      const auto reach = hn::And(hn::Ge(v, hn::Set(DF(), least)), hn::Gt(v, hn::Set(DF(), kLowest)));
      if (hn::AllFalse(DF(), reach)) return;
      float some[16];
      std::uint8_t bits[8] = {};
      hn::StoreU(v, DF(), some), hn::StoreMaskBits(DF(), reach, bits);
      for (unsigned left = bits[0] | static_cast<unsigned>(bits[1]) << 8U; left != 0; left &= left - 1) {
        const int j = std::countr_zero(left);
        if (some[j] < least || (found == k && some[j] == least)) continue;
        std::int64_t at = found < k ? found++ : k - 1;
        for (; at > 0 && values[at - 1] < some[j]; --at) values[at] = values[at - 1], ids[at] = ids[at - 1];
        values[at] = some[j], ids[at] = static_cast<std::int32_t>(i + j);
        if (found == k) least = values[k - 1];
      }
    });
    std::fill(values + found, values + k, kLowest), std::fill(ids + found, ids + k, -1);
  };
  if (log) find(LogSoftmax(x, lane_max, n));
  else find([](VF v) HWY_ATTR { return v; });
}

void BestOfRows(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) {
  visit_float("top_k", x.dtype(), [&]<class T>() {
    const std::int64_t cols = x.cols(), stride = x.row_stride();
    const T* from = x.data<T>();
    float* best = values.mutable_data<float>();
    std::int32_t* places = ids.mutable_data<std::int32_t>();
    parallel_for(ctx.threads(), x.rows(), 1 + 8192 / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t row = begin; row < end; ++row) BestOfRow(from + row * stride, cols, k, log, best + row * k, places + row * k);
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(BestOfRows);

void CpuKernels::top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) {
  HWY_DYNAMIC_DISPATCH(BestOfRows)(ctx, x, k, log, values, ids);
}

}  // namespace transformer
#endif
