#pragma once
// FFN(x) = activation(x W₁ + b₁) W₂ + b₂, or gated: (activation(x W_g) ∘ (x W_u)) W₂. It holds about two thirds of a
// layer's parameters.

#include "transformer/nn/config.h"
#include "transformer/nn/linear.h"

namespace transformer {

Activation activation_of(FeedForwardKind kind);
bool is_gated(FeedForwardKind kind);
FeedForwardKind feed_forward_of(Activation activation, bool gated);  // the other way round

struct FeedForward {
  FeedForwardKind kind = FeedForwardKind::relu;
  float dropout = 0.0F;  // after the activation
  Linear in;             // d → d_ff, or d → gate | up when gated
  Linear out;            // d_ff → d

  FeedForward() = default;
  explicit FeedForward(const StackConfig& resolved);
  // [tokens, d] → [tokens, d]; `inner` receives what is between the two products [tokens, d_ff].
  Tensor operator()(Context& ctx, const Tensor& x, Tensor* inner = nullptr) const;
  void visit(auto&& f) { f("in", in), f("out", out); }
};

}  // namespace transformer
