#pragma once
// Elementary functions and activations with their derivatives: apply returns the value and sets the slope.

#include <type_traits>

#include "backend/cuda/ptx.cuh"
#include "backend/kernels.h"

namespace transformer {

struct ExactMath {
  // Φ(x), the normal distribution function, and its density φ(x).
  __device__ static float normal(float x, float& density) {
    density = 0.398942280F * expf(-0.5F * x * x);
    return 0.5F * erfcf(-0.707106781F * x);
  }
  // σ(z) and its slope, without the loss of digits of 1-σ.
  __device__ static float sigmoid(float z, float& slope) {
    const float e = expf(-fabsf(z)), large = 1.0F / (1.0F + e), small = e * large;
    slope = large * small;
    return z < 0.0F ? small : large;
  }
};
// What is rounded to eight or eleven bits needs no more than the processor's own approximations, whose errors are some 1e-6: exact ones
// take longer than the way to memory and back.
struct RoughMath {
  __device__ static float exp(float x) { return power_of_two(1.44269504F * x); }
  __device__ static float power_of_two(float x) { return ptx::power_of_two(x); }
  __device__ static float inverse(float x) { return ptx::inverse(x); }
  // Abramowitz and Stegun 7.1.26, whose error is 1.5e-7.
  __device__ static float normal(float x, float& density) {
    const float e = exp(-0.5F * x * x), t = inverse(1.0F + 0.3275911F * 0.707106781F * fabsf(x));
    const float tail = 0.5F * e * t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    density = 0.398942280F * e;
    return x < 0.0F ? tail : 1.0F - tail;
  }
  __device__ static float sigmoid(float z, float& slope) {
    const float e = fminf(exp(-z), 1e38F), s = inverse(1.0F + e);  // 1-σ is e·σ; of the largest e, σ is 0
    slope = s * (e * s);
    return s;
  }
};
template <class T>
using MathOf = std::conditional_t<sizeof(T) == 2, RoughMath, ExactMath>;

struct IdentityOf {
  __device__ static float apply(float x, float& slope) {
    slope = 1.0F;
    return x;
  }
};
struct ReluOf {
  __device__ static float apply(float x, float& slope) {
    slope = x > 0.0F ? 1.0F : 0.0F;
    return x < 0.0F ? 0.0F : x;
  }
};
// x·Φ(x). Slope: Φ(x) + x·φ(x).
template <class Math>
struct GeluOf {
  __device__ static float apply(float x, float& slope) {
    float density;
    const float phi = Math::normal(x, density);
    slope = phi + x * density;
    return x * phi;
  }
};
// x·(1 + tanh(z/2))/2 = x·σ(z) with z = 2√(2/π)·(x + 0.044715·x³).
template <class Math>
struct GeluTanhOf {
  __device__ static float apply(float x, float& slope) {
    constexpr float k = 1.59576912F;
    float s_slope;
    const float s = Math::sigmoid(x * (k + k * 0.044715F * x * x), s_slope);
    slope = s + x * s_slope * (k + k * 3.0F * 0.044715F * x * x);
    return x * s;
  }
};
template <class Math>
struct SiluOf {
  __device__ static float apply(float x, float& slope) {
    float s_slope;
    const float s = Math::sigmoid(x, s_slope);
    slope = s + x * s_slope;
    return x * s;
  }
};

// Calls f.template operator()<F>() with the activation's type, for values of T.
template <class T, class Call>
decltype(auto) visit_activation(Activation kind, Call&& f) {
  switch (kind) {
    case Activation::none: return f.template operator()<IdentityOf>();
    case Activation::relu: return f.template operator()<ReluOf>();
    case Activation::gelu: return f.template operator()<GeluOf<MathOf<T>>>();
    case Activation::gelu_tanh: return f.template operator()<GeluTanhOf<MathOf<T>>>();
    case Activation::silu: return f.template operator()<SiluOf<MathOf<T>>>();
  }
  fail("activation", "unknown activation {}", static_cast<int>(kind));
}

}  // namespace transformer
