#pragma once

#include "transformer/nn/parameter.h"
#include "transformer/ops/linear.h"

namespace transformer {

// What is trained beside a matrix that stays as it is (LoRA, models/lora.h): it adds scale · b(a(dropout(x))) to the outputs from `row`
// on, which are all of them or one part of a fused matrix.
struct LowRank {
  std::int64_t row = 0;
  float scale = 1.0F, dropout = 0.0F;
  Parameter a, b;  // [rank, in], [rows, rank]

  LowRank(std::int64_t in, std::int64_t first_row, std::int64_t rows, std::int64_t rank);  // as PEFT begins: a U(±1/√in), b 0
  void visit(auto&& f) { f("a", a), f("b", b); }
};

// x [..., in] → activation(x · weightᵀ + bias) [..., out]
struct Linear {
  Parameter weight, bias;              // [out, in], [out]
  std::vector<LowRank> adapters = {};  // beside the weight; not visited, for they are not part of the checkpoint

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
    return adapters.empty() ? linear(ctx, x, weight, bias, activation, dropout) : adapted(ctx, x, activation, dropout);
  }
  void visit(auto&& f) { f("weight", weight), f("bias", bias); }

 private:
  Tensor adapted(Context& ctx, const Tensor& x, Activation activation, float dropout) const;
};

struct NamedLinear {
  std::string name;  // "stack.layers.0.attention.qkv"
  Linear* linear;
};

// All layers of this kind in a module, in the order it names them. They point into the module.
template <class Module>
std::vector<NamedLinear> linears(Module& module) {
  std::vector<NamedLinear> out;
  detail::each<Linear>("", module, [&](const std::string& name, Linear& linear, const void*) { out.push_back({name, &linear}); });
  return out;
}

}  // namespace transformer
