// Functions of two tensors that broadcast to one shape.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/binary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/axes.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

template <class F>
HWY_INLINE void VisitBinary(Binary kind, F&& f) {
  switch (kind) {
    case Binary::add: return f([](VF a, VF b) HWY_ATTR { return hn::Add(a, b); });
    case Binary::sub: return f([](VF a, VF b) HWY_ATTR { return hn::Sub(a, b); });
    case Binary::mul: return f([](VF a, VF b) HWY_ATTR { return hn::Mul(a, b); });
    case Binary::div: return f([](VF a, VF b) HWY_ATTR { return hn::Div(a, b); });
    case Binary::max: return f([](VF a, VF b) HWY_ATTR { return Larger(a, b); });
    case Binary::min: return f([](VF a, VF b) HWY_ATTR { return Smaller(a, b); });
  }
}

// y[i] = f(a[i · a_step], b[i · b_step]), steps 0 or 1.
template <class T, class F>
HWY_INLINE void Line(F f, const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y, std::int64_t n) {
  if (a_step == 0) {
    const VF one = hn::Set(DF(), static_cast<float>(*a));
    ForVectors(n,
               [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, f(one, LoadSome(whole, b + i, m)), y + i, m); });
  } else if (b_step == 0) {
    const VF one = hn::Set(DF(), static_cast<float>(*b));
    ForVectors(n,
               [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, f(LoadSome(whole, a + i, m), one), y + i, m); });
  } else {
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, f(LoadSome(whole, a + i, m), LoadSome(whole, b + i, m)), y + i, m);
    });
  }
}

// `nest` gives the steps of a and b; y is dense.
void BinaryForward(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y, const std::vector<Loop>& nest, Loop line) {
  VisitBinary(kind, [&](auto f) HWY_ATTR {
    visit_float("binary", y.dtype(), [&]<class T>() HWY_ATTR {
      const T* from_a = a.data<T>();
      const T* from_b = b.data<T>();
      T* to = y.mutable_data<T>();
      for_row_pieces(ctx, {count_of(nest), line.n}, [=, &nest](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
        const Offsets at = offsets_at(nest, row);
        Line(f, from_a + at.x + first * line.x, line.x, from_b + at.y + first * line.y, line.y, to + row * line.n + first, n);
      });
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {

HWY_EXPORT(BinaryForward);

void CpuKernels::binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y) {
  std::vector<Loop> nest = broadcast_nest(a, b, y);
  Loop line{1, 1, 1};
  if (!nest.empty()) line = nest.back(), nest.pop_back();
  HWY_DYNAMIC_DISPATCH(BinaryForward)(ctx, kind, a, b, y, nest, line);
}

}  // namespace transformer
#endif  // HWY_ONCE
