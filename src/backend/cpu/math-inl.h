// Elementary functions and activations on vectors of float32, with their derivatives.
#if defined(TRANSFORMER_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRANSFORMER_MATH_INL_H_
#undef TRANSFORMER_MATH_INL_H_
#else
#define TRANSFORMER_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>

#include "backend/cpu/simd-inl.h"
#include "transformer/core/types.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

HWY_INLINE VF Const(float value) { return hn::Set(DF(), value); }

// The larger and the smaller; a NaN on either side wins.
HWY_INLINE VF Larger(VF a, VF b) { return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); }
HWY_INLINE VF Smaller(VF a, VF b) { return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); }

// eˣ for x ≤ 0 within 1 ulp: 0 where the result would be subnormal; a NaN stays one.
HWY_INLINE VF ExpOfNegative(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  // x = n·ln 2 + r: adding 1.5·2²³ leaves n in the lowest bits, from where it goes into the exponent of e^r.
  const VF magic = Const(12582912.0F);
  const VF shifted = hn::MulAdd(x, Const(1.44269504F), magic);
  const VF n = hn::Sub(shifted, magic);
  const VF r = hn::NegMulAdd(n, Const(-2.12194440e-4F), hn::NegMulAdd(n, Const(0.693359375F), x));
  VF p = hn::MulAdd(r, Const(0.00139261818F), Const(0.00836317763F));
  p = hn::MulAdd(r, p, Const(0.0416665546F));
  p = hn::MulAdd(r, p, Const(0.16666577F));
  p = hn::MulAdd(r, p, Const(0.5F));
  p = hn::MulAdd(r, p, Const(1.0F));
  p = hn::MulAdd(r, p, Const(1.0F));
  const VF y = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(hn::Lt(x, Const(-87.0F)), y);
}
// The same for every x; inf where the result is too large.
HWY_INLINE VF Exp(VF x) {
  return hn::IfThenElse(hn::Gt(x, Const(88.722839F)), Const(std::numeric_limits<float>::infinity()), ExpOfNegative(x));
}

// Natural logarithm; -inf at 0, NaN below.
HWY_INLINE VF Log(VF x) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const VF y = hn::IfThenElse(hn::Lt(x, Const(inf)), hn::Log(DF(), x), x);
  const VF at_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(DF())), Const(-inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), Const(std::numeric_limits<float>::quiet_NaN()), at_zero);
}

HWY_INLINE VF Tanh(VF x) { return hn::Tanh(DF(), x); }

// The vector forms reduce the angle with enough digits up to 39000; beyond, one number at a time.
template <class Vector, class Scalar>
HWY_INLINE VF OfAngle(VF x, Vector&& vector, Scalar&& scalar) {
  const DF d;
  if (hn::AllFalse(d, hn::Gt(hn::Abs(x), Const(39000.0F)))) return vector(x);
  float lanes[16];
  hn::StoreU(x, d, lanes);
  for (std::int64_t i = 0; i < Lanes(); ++i) lanes[i] = scalar(lanes[i]);
  return hn::LoadU(d, lanes);
}
HWY_INLINE VF Sin(VF x) {
  return OfAngle(
      x, [](VF v) HWY_ATTR { return hn::Sin(DF(), v); }, [](float v) HWY_ATTR { return std::sin(v); });
}
HWY_INLINE VF Cos(VF x) {
  return OfAngle(
      x, [](VF v) HWY_ATTR { return hn::Cos(DF(), v); }, [](float v) HWY_ATTR { return std::cos(v); });
}

// 1 - erf(z) for z ≥ 0, given e^(-z²): Abramowitz and Stegun 7.1.26, absolute error at most 1.5e-7.
HWY_INLINE VF ErfcOfPositive(VF z, VF exp_minus_z2) {
  const VF t = hn::Div(Const(1.0F), hn::MulAdd(z, Const(0.3275911F), Const(1.0F)));
  VF p = hn::MulAdd(t, Const(1.061405429F), Const(-1.453152027F));
  p = hn::MulAdd(t, p, Const(1.421413741F));
  p = hn::MulAdd(t, p, Const(-0.284496736F));
  p = hn::MulAdd(t, p, Const(0.254829592F));
  return hn::Mul(hn::Mul(t, p), exp_minus_z2);
}
HWY_INLINE VF Erf(VF x) {
  const VF z = hn::Abs(x);
  return hn::CopySign(hn::Sub(Const(1.0F), ErfcOfPositive(z, ExpOfNegative(hn::Neg(hn::Mul(z, z))))), x);
}

// Activations: Apply returns the value and sets the slope; what the caller does not use costs nothing once inlined.

struct Identity {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = Const(1.0F);
    return x;
  }
};

struct Relu {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    slope = hn::IfThenElseZero(hn::Gt(x, hn::Zero(DF())), Const(1.0F));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(DF())), x);
  }
};

// x·Φ(x), Φ the normal distribution function: Φ(x) = erfc(-x/√2) / 2. Slope: Φ(x) + x·φ(x).
struct Gelu {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    const VF bell = ExpOfNegative(hn::Mul(hn::Mul(x, x), Const(-0.5F)));
    const VF tail = hn::Mul(Const(0.5F), ErfcOfPositive(hn::Mul(hn::Abs(x), Const(0.707106781F)), bell));
    const VF phi = hn::IfThenElse(hn::Lt(x, hn::Zero(DF())), tail, hn::Sub(Const(1.0F), tail));
    slope = hn::MulAdd(hn::Mul(x, Const(0.398942280F)), bell, phi);
    return hn::Mul(x, phi);
  }
};

// σ(z) and its slope σ(z)·(1-σ(z)), without the loss of digits of 1-σ: with e = e^-|z|, one of σ and 1-σ is 1/(1+e),
// the other e/(1+e).
HWY_INLINE VF SigmoidAndSlope(VF z, VF& slope) {
  const VF e = ExpOfNegative(hn::Neg(hn::Abs(z)));
  const VF large = hn::Div(Const(1.0F), hn::Add(Const(1.0F), e));
  const VF small = hn::Mul(e, large);
  slope = hn::Mul(large, small);
  return hn::IfThenElse(hn::Lt(z, hn::Zero(DF())), small, large);
}

// x·(1 + tanh(z/2))/2 = x·σ(z) with z = 2√(2/π)·(x + 0.044715·x³). Slope: σ + x·σ'·z'.
struct GeluTanh {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    constexpr float k = 1.59576912F;
    const VF x2 = hn::Mul(x, x);
    VF s_slope;
    const VF s = SigmoidAndSlope(hn::Mul(x, hn::MulAdd(x2, Const(k * 0.044715F), Const(k))), s_slope);
    slope = hn::MulAdd(hn::Mul(x, s_slope), hn::MulAdd(x2, Const(k * 3.0F * 0.044715F), Const(k)), s);
    return hn::Mul(x, s);
  }
};

// x·σ(x). Slope: σ + x·σ'.
struct Silu {
  static HWY_INLINE VF Apply(VF x, VF& slope) {
    VF s_slope;
    const VF s = SigmoidAndSlope(x, s_slope);
    slope = hn::MulAdd(x, s_slope, s);
    return hn::Mul(x, s);
  }
};

// Calls f with the activation as a value of its type.
template <class F>
HWY_INLINE void VisitActivation(Activation kind, F&& f) {
  switch (kind) {
    case Activation::none: return f(Identity());
    case Activation::relu: return f(Relu());
    case Activation::gelu: return f(Gelu());
    case Activation::gelu_tanh: return f(GeluTanh());
    case Activation::silu: return f(Silu());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();
#endif
