#pragma once

#include "transformer/nn/parameter.h"
#include "transformer/ops/batch_norm.h"
#include "transformer/ops/norm.h"

namespace transformer {

// LayerNorm: weight · (x − μ) / √(σ² + ε) + bias, or RMSNorm: weight · x / √(mean(x²) + ε)
struct Norm {
  NormKind kind = NormKind::layer_norm;
  float eps = 1e-5F;
  Parameter weight, bias;  // [d]; RMSNorm has no bias
  // Buffers of a BatchNorm: the same formula with μ and σ of each feature over all tokens. [d], [d], [1]: batches seen.
  Parameter running_mean, running_variance, batches;

  Norm() = default;
  Norm(NormKind norm_kind, std::int64_t d, float epsilon, bool with_bias = true) : kind(norm_kind), eps(epsilon) {
    weight = {.shape = {d}, .init = Init::ones};
    if (kind == NormKind::layer_norm && with_bias) bias = {.shape = {d}};
  }
  static Norm over_batch(std::int64_t d, float epsilon) {
    Norm n(NormKind::layer_norm, d, epsilon);
    n.running_mean = {.shape = {d}, .trained = false};
    n.running_variance = {.shape = {d}, .init = Init::ones, .trained = false};
    n.batches = {.shape = {1}, .trained = false};
    return n;
  }
  bool is_over_batch() const { return running_mean.present(); }

  NormOptions options() const { return {.kind = kind, .weight = weight, .bias = bias, .eps = eps}; }
  Tensor operator()(Context& ctx, const Tensor& x) const {
    if (!is_over_batch()) return norm(ctx, x, options());
    return batch_norm(ctx, x,
                      {.weight = weight,
                       .bias = bias,
                       .running_mean = running_mean,
                       .running_variance = running_variance,
                       .batches = batches,
                       .eps = eps});
  }
  // Of x + dropout(sub), in one pass.
  AddNorm of_sum(Context& ctx, const Tensor& x, const Tensor& sub, float dropout) const {
    if (!is_over_batch()) return add_norm(ctx, x, sub, options(), dropout);
    const Tensor sum = add_dropout(ctx, x, sub, dropout);
    return {sum, (*this)(ctx, sum)};
  }
  void visit(auto&& f) {
    f("weight", weight), f("bias", bias);
    f("running_mean", running_mean), f("running_variance", running_variance), f("batches", batches);
  }
};

}  // namespace transformer
