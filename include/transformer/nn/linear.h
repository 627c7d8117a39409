#pragma once

#include "transformer/nn/parameter.h"
#include "transformer/ops/linear.h"

namespace transformer {

// x [..., in] → activation(x · weightᵀ + bias) [..., out]
struct Linear {
  Parameter weight, bias;  // [out, in], [out]

  Linear() = default;
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true) : Linear(in, std::vector<std::int64_t>{out}, with_bias) {}
  // Several projections of one input in one matrix, their rows one after another.
  Linear(std::int64_t in, const std::vector<std::int64_t>& outs, bool with_bias = true) {
    std::int64_t out = 0;
    for (std::int64_t n : outs) out += n;
    const auto parts = outs.size() > 1 ? outs : std::vector<std::int64_t>{};
    weight = {.shape = {out, in}, .init = Init::xavier_uniform, .parts = parts};
    if (with_bias) bias = {.shape = {out}, .parts = parts};
  }
  Tensor operator()(Context& ctx, const Tensor& x, Activation activation = Activation::none, float dropout = 0.0F) const {
    return linear(ctx, x, weight, bias, activation, dropout);
  }
  void visit(auto&& f) { f("weight", weight), f("bias", bias); }
};

}  // namespace transformer
