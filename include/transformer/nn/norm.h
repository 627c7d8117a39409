#pragma once

#include "transformer/nn/parameter.h"
#include "transformer/ops/norm.h"

namespace transformer {

// LayerNorm: weight · (x − μ) / √(σ² + ε) + bias, or RMSNorm: weight · x / √(mean(x²) + ε)
struct Norm {
  NormKind kind = NormKind::layer_norm;
  float eps = 1e-5F;
  Parameter weight, bias;  // [d]; RMSNorm has no bias

  Norm() = default;
  Norm(NormKind norm_kind, std::int64_t d, float epsilon, bool with_bias = true) : kind(norm_kind), eps(epsilon) {
    weight = {.shape = {d}, .init = Init::ones};
    if (kind == NormKind::layer_norm && with_bias) bias = {.shape = {d}};
  }
  NormOptions options() const { return {.kind = kind, .weight = weight, .bias = bias, .eps = eps}; }
  Tensor operator()(Context& ctx, const Tensor& x) const { return norm(ctx, x, options()); }
  void visit(auto&& f) { f("weight", weight), f("bias", bias); }
};

}  // namespace transformer
