#include "transformer/nn/feed_forward.h"

#include "transformer/ops/activation.h"
#include "transformer/ops/dropout.h"

namespace transformer {

Activation activation_of(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::relu:
    case FeedForwardKind::reglu: return Activation::relu;
    case FeedForwardKind::gelu:
    case FeedForwardKind::geglu: return Activation::gelu;
    case FeedForwardKind::gelu_tanh:
    case FeedForwardKind::geglu_tanh: return Activation::gelu_tanh;
    case FeedForwardKind::silu:
    case FeedForwardKind::swiglu: return Activation::silu;
  }
  return Activation::none;
}

bool is_gated(FeedForwardKind kind) {
  return kind == FeedForwardKind::geglu || kind == FeedForwardKind::geglu_tanh || kind == FeedForwardKind::swiglu ||
      kind == FeedForwardKind::reglu;
}

FeedForwardKind feed_forward_of(Activation activation, bool gated) {
  for (const auto& [kind, name] : names(FeedForwardKind{}))
    if (activation_of(kind) == activation && is_gated(kind) == gated) return kind;
  fail("feed_forward", "there is no {} layer with that activation", gated ? "gated" : "plain");
}

FeedForward::FeedForward(const StackConfig& c)
    : kind(c.feed_forward), dropout(c.ffn_dropout),
      in(c.d_model, is_gated(kind) ? std::vector<std::int64_t>{c.d_ff, c.d_ff} : std::vector<std::int64_t>{c.d_ff}, c.ffn_bias),
      out(c.d_ff, c.d_model, c.ffn_bias) {}

Tensor FeedForward::operator()(Context& ctx, const Tensor& x, Tensor* inner) const {
  const Activation activation = activation_of(kind);
  const Tensor h = is_gated(kind) ? transformer::dropout(ctx, gated(ctx, activation, in(ctx, x)), dropout)
                                  : in(ctx, x, activation, dropout);
  if (inner != nullptr) *inner = h;
  return out(ctx, h);
}

}  // namespace transformer
