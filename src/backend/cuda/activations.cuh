#pragma once
// Elementary functions and activations with their derivatives: apply returns the value and sets the slope.

#include "backend/kernels.h"

namespace transformer {

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
// x·Φ(x), Φ the normal distribution function. Slope: Φ(x) + x·φ(x).
struct GeluOf {
  __device__ static float apply(float x, float& slope) {
    const float phi = 0.5F * erfcf(-0.707106781F * x);
    slope = phi + x * 0.398942280F * expf(-0.5F * x * x);
    return x * phi;
  }
};
// σ(z) and its slope, without the loss of digits of 1-σ.
__device__ inline float sigmoid_of(float z, float& slope) {
  const float e = expf(-fabsf(z)), large = 1.0F / (1.0F + e), small = e * large;
  slope = large * small;
  return z < 0.0F ? small : large;
}
// x·(1 + tanh(z/2))/2 = x·σ(z) with z = 2√(2/π)·(x + 0.044715·x³).
struct GeluTanhOf {
  __device__ static float apply(float x, float& slope) {
    constexpr float k = 1.59576912F;
    float s_slope;
    const float s = sigmoid_of(x * (k + k * 0.044715F * x * x), s_slope);
    slope = s + x * s_slope * (k + k * 3.0F * 0.044715F * x * x);
    return x * s;
  }
};
struct SiluOf {
  __device__ static float apply(float x, float& slope) {
    float s_slope;
    const float s = sigmoid_of(x, s_slope);
    slope = s + x * s_slope;
    return x * s;
  }
};

// Calls f.template operator()<F>() with the activation's type.
template <class Call>
decltype(auto) visit_activation(Activation kind, Call&& f) {
  switch (kind) {
    case Activation::none: return f.template operator()<IdentityOf>();
    case Activation::relu: return f.template operator()<ReluOf>();
    case Activation::gelu: return f.template operator()<GeluOf>();
    case Activation::gelu_tanh: return f.template operator()<GeluTanhOf>();
    case Activation::silu: return f.template operator()<SiluOf>();
  }
  fail("activation", "unknown activation {}", static_cast<int>(kind));
}

}  // namespace transformer
