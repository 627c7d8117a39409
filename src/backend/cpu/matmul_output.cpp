#include "backend/cpu/matmul_output.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_output.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

template <class T, class B>
void WriteRows(const MatmulOutput& p) {
  const B* bias = static_cast<const B*>(p.bias);
  const VF alpha = Const(p.alpha);
  VisitActivation(p.activation, [&](auto activation) HWY_ATTR {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const float* from = p.sums + r * p.sums_row;
      T* to = static_cast<T*>(p.c) + r * p.c_row;
      ForVectors(p.cols, [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR {
        VF slope, x = hn::Mul(LoadSome(whole, from + i, n), alpha);
        if (bias != nullptr) x = hn::Add(x, LoadSome(whole, bias + i, n));
        if (p.accumulate) x = hn::Add(x, LoadSome(whole, to + i, n));
        StoreSome(whole, activation.Apply(x, slope), to + i, n);
      });
    }
  });
}

void WriteOutput(const MatmulOutput& p) {
  const bool low = p.out == DType::bfloat16, low_bias = p.bias_type == DType::bfloat16;
  if (low && low_bias) WriteRows<bfloat16, bfloat16>(p);
  else if (low) WriteRows<bfloat16, float>(p);
  else if (low_bias) WriteRows<float, bfloat16>(p);
  else WriteRows<float, float>(p);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(WriteOutput);

void write_output(const MatmulOutput& output) { HWY_DYNAMIC_DISPATCH(WriteOutput)(output); }

}  // namespace transformer
#endif
