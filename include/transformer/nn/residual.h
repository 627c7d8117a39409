#pragma once

#include "transformer/nn/config.h"
#include "transformer/nn/norm.h"

namespace transformer {

// The connection around a sublayer: Norm(x + Dropout(Sub(x))) or x + Dropout(Sub(Norm(x))).
struct Residual {
  NormPlace place = NormPlace::post;
  float dropout = 0.0F;
  Norm norm;

  Residual() = default;
  explicit Residual(const StackConfig& c) : place(c.norm_place), dropout(c.dropout), norm(c.norm, c.d_model, c.norm_eps, c.norm_bias) {}

  template <class Sublayer>
  Tensor operator()(Context& ctx, const Tensor& x, Sublayer&& sublayer) const {
    if (place == NormPlace::post) return add_norm(ctx, x, sublayer(x), norm.options(), dropout).normed;
    return add_dropout(ctx, x, sublayer(norm(ctx, x)), dropout);
  }
};

}  // namespace transformer
