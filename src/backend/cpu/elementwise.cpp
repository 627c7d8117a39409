// Functions of one tensor, element by element, and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

// The functions that are not activations, in the same form: value and slope.
struct TanhOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    const VF y = Tanh(x);
    slope = hn::NegMulAdd(y, y, Const(1.0F));
    return y;
  }
};
struct SigmoidOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) { return SigmoidAndSlope(x, slope); }
};
struct ExpOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) { return slope = Exp(x); }
};
struct LogOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = hn::Div(Const(1.0F), x);
    return Log(x);
  }
};
struct SqrtOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    const VF y = hn::Sqrt(x);
    slope = hn::Div(Const(0.5F), y);
    return y;
  }
};
struct RsqrtOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    const VF y = hn::Div(Const(1.0F), hn::Sqrt(x));
    slope = hn::Mul(Const(-0.5F), hn::Div(y, x));
    return y;
  }
};
struct SquareOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = hn::Add(x, x);
    return hn::Mul(x, x);
  }
};
struct AbsOf {  // slope 0 at 0
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = hn::IfThenZeroElse(hn::Eq(x, hn::Zero(DF())), hn::CopySign(Const(1.0F), x));
    return hn::Abs(x);
  }
};
struct NegOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = Const(-1.0F);
    return hn::Neg(x);
  }
};
struct SinOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = Cos(x);
    return Sin(x);
  }
};
struct CosOf {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = hn::Neg(Sin(x));
    return Cos(x);
  }
};
struct ScaleBy {
  float factor;
  HWY_INLINE VF Apply(VF x, VF&) const { return hn::Mul(x, Const(factor)); }
};

template <class F>
HWY_INLINE void VisitUnary(Unary kind, F&& f) {
  switch (kind) {
    case Unary::relu: return f(Relu());
    case Unary::gelu: return f(Gelu());
    case Unary::gelu_tanh: return f(GeluTanh());
    case Unary::silu: return f(Silu());
    case Unary::tanh: return f(TanhOf());
    case Unary::sigmoid: return f(SigmoidOf());
    case Unary::exp: return f(ExpOf());
    case Unary::log: return f(LogOf());
    case Unary::sqrt: return f(SqrtOf());
    case Unary::rsqrt: return f(RsqrtOf());
    case Unary::square: return f(SquareOf());
    case Unary::abs: return f(AbsOf());
    case Unary::neg: return f(NegOf());
    case Unary::sin: return f(SinOf());
    case Unary::cos: return f(CosOf());
  }
}

// y = f(x). x and y may be the same tensor.
template <class Function>
void Map(Context& ctx, const char* op, const Tensor& x, Tensor& y, Function f) {
  visit_float(op, x.dtype(), [&]<class T>() HWY_ATTR {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_row_pieces(ctx, common_rows(x, y),
                   [=, xs = x.row_stride(), ys = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
      const T* a = from + row * xs + first;
      T* b = to + row * ys + first;
      ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
        VF slope;
        StoreSome(whole, f.Apply(LoadSome(whole, a + i, m), slope), b + i, m);
      });
    });
  });
}

void UnaryForward(Context& ctx, Unary kind, const Tensor& x, Tensor& y) {
  VisitUnary(kind, [&](auto f) HWY_ATTR { Map(ctx, "unary", x, y, f); });
}

void ScaleForward(Context& ctx, float factor, const Tensor& x, Tensor& y) { Map(ctx, "scale", x, y, ScaleBy{factor}); }

// dx = dy · f'(x)
void UnaryBackward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) {
  VisitUnary(kind, [&](auto f) HWY_ATTR {
    visit_float("unary_backward", x.dtype(), [&]<class T>() HWY_ATTR {
      const T* input = x.data<T>();
      const T* from = dy.data<T>();
      T* to = dx.mutable_data<T>();
      for_row_pieces(ctx, common_rows(x, dy, dx),
                     [=, xs = x.row_stride(), ys = dy.row_stride(), ds = dx.row_stride()](std::int64_t row, std::int64_t first,
                                                                                          std::int64_t n) HWY_ATTR {
        const T* a = input + row * xs + first;
        const T* g = from + row * ys + first;
        T* b = to + row * ds + first;
        ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          VF slope;
          f.Apply(LoadSome(whole, a + i, m), slope);
          StoreSome(whole, hn::Mul(hn::Mul(slope, hn::Set(DF(), factor)), LoadSome(whole, g + i, m)), b + i, m);
        });
      });
    });
  });
}

void GatedForward(Context& ctx, Activation kind, const Tensor& x, Tensor& y) {
  VisitActivation(kind, [&](auto f) HWY_ATTR {
    visit_float("gated", x.dtype(), [&]<class T>() HWY_ATTR {
      const T* from = x.data<T>();
      T* to = y.mutable_data<T>();
      const std::int64_t h = y.cols(), xs = x.row_stride(), ys = y.row_stride();
      for_row_pieces(ctx, {y.rows(), h}, [=](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
        const T* gate = from + row * xs + first;
        const T* up = gate + h;
        T* b = to + row * ys + first;
        ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          VF slope;
          StoreSome(whole, hn::Mul(f.Apply(LoadSome(whole, gate + i, m), slope), LoadSome(whole, up + i, m)), b + i, m);
        });
      });
    });
  });
}

// d gate = dy · up · f'(gate), d up = dy · f(gate)
void GatedBackward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) {
  VisitActivation(kind, [&](auto f) HWY_ATTR {
    visit_float("gated_backward", x.dtype(), [&]<class T>() HWY_ATTR {
      const T* from = x.data<T>();
      const T* grad = dy.data<T>();
      T* to = dx.mutable_data<T>();
      const std::int64_t h = dy.cols(), xs = x.row_stride(), ys = dy.row_stride(), ds = dx.row_stride();
      for_row_pieces(ctx, {dy.rows(), h}, [=](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
        const T* gate = from + row * xs + first;
        const T* up = gate + h;
        const T* g = grad + row * ys + first;
        T* dgate = to + row * ds + first;
        T* dup = dgate + h;
        ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          VF slope;
          const VF value = f.Apply(LoadSome(whole, gate + i, m), slope);
          const VF d = LoadSome(whole, g + i, m);
          const VF u = LoadSome(whole, up + i, m);
          StoreSome(whole, hn::Mul(d, hn::Mul(u, slope)), dgate + i, m);
          StoreSome(whole, hn::Mul(d, value), dup + i, m);
        });
      });
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {

HWY_EXPORT(UnaryForward);
HWY_EXPORT(UnaryBackward);
HWY_EXPORT(GatedForward);
HWY_EXPORT(GatedBackward);
HWY_EXPORT(ScaleForward);

void CpuKernels::unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y) { HWY_DYNAMIC_DISPATCH(UnaryForward)(ctx, kind, x, y); }

void CpuKernels::unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(UnaryBackward)(ctx, kind, x, dy, 1.0F, dx);
}

void CpuKernels::activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) {
  if (kind == Activation::none) return scale(ctx, factor, dy, dx);
  HWY_DYNAMIC_DISPATCH(UnaryBackward)(ctx, unary_of(kind), x, dy, factor, dx);
}

void CpuKernels::gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y) { HWY_DYNAMIC_DISPATCH(GatedForward)(ctx, kind, x, y); }

void CpuKernels::gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) {
  HWY_DYNAMIC_DISPATCH(GatedBackward)(ctx, kind, x, dy, dx);
}

void CpuKernels::scale(Context& ctx, float factor, const Tensor& x, Tensor& y) { HWY_DYNAMIC_DISPATCH(ScaleForward)(ctx, factor, x, y); }
void CpuKernels::scale_by(Context& ctx, const Tensor& factor, Tensor& x) {
  if (const float value = *factor.data<float>(); value != 1.0F) scale(ctx, value, x, x);
}

}  // namespace transformer
#endif  // HWY_ONCE
