#pragma once

#include "transformer/nn/config.h"
#include "transformer/nn/norm.h"

namespace transformer {

inline Norm norm_of(const StackConfig& c) {
  return c.batch_norm ? Norm::over_batch(c.d_model, c.norm_eps) : Norm(c.norm, c.d_model, c.norm_eps, c.norm_bias);
}

// The connection around a sublayer: Norm(x + Dropout(Sub(x))) or x + Dropout(Sub(Norm(x))).
struct Residual {
  NormPlace place = NormPlace::post;
  float dropout = 0.0F;
  Norm norm;

  Residual() = default;
  explicit Residual(const StackConfig& c) : place(c.norm_place), dropout(c.dropout), norm(norm_of(c)) {}

  template <class Sublayer>
  Tensor operator()(Context& ctx, const Tensor& x, Sublayer&& sublayer) const {
    if (place == NormPlace::post) return norm(ctx, x, sublayer(x), dropout);
    return add_dropout(ctx, x, sublayer(norm(ctx, x)), dropout);
  }
};

}  // namespace transformer
