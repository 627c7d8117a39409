#pragma once

#include <utility>

#include "transformer/autograd/layer_weights.h"
#include "transformer/nn/config.h"
#include "transformer/nn/norm.h"

namespace transformer {

inline Norm norm_of(const StackConfig& c) {
  return c.batch_norm ? Norm::over_batch(c.d_model, c.norm_eps) : Norm(c.norm, c.d_model, c.norm_eps, c.norm_bias);
}

// What runs through a stack: x, and perhaps the output of a sublayer that is still to be added to it. The sum and the norm that
// comes next are one pass over memory.
class Stream {
 public:
  explicit Stream(Tensor x) : x_(std::move(x)) {}

  const Tensor& value(Context& ctx) {
    if (sub_.defined()) x_ = add_dropout(ctx, x_, std::exchange(sub_, Tensor()), dropout_);
    return x_;
  }
  Tensor normed(Context& ctx, const Norm& norm) {
    if (!sub_.defined()) return norm(ctx, x_);
    const AddNorm both = norm.of_sum(ctx, x_, std::exchange(sub_, Tensor()), dropout_);
    x_ = both.sum;
    return both.normed;
  }
  void add(Context& ctx, Tensor sub, float dropout) {
    value(ctx);
    sub_ = std::move(sub), dropout_ = dropout;
  }
  // From one layer to the next, see between_layers.
  void through(Context& ctx, const void* before, const void* after) {
    Tensor& last = sub_.defined() ? sub_ : x_;
    last = between_layers(ctx, last, before, after);
  }

 private:
  Tensor x_, sub_;
  float dropout_ = 0.0F;
};

// The connection around a sublayer: Norm(x + Dropout(Sub(x))) or x + Dropout(Sub(Norm(x))).
struct Residual {
  NormPlace place = NormPlace::post;
  float dropout = 0.0F;
  Norm norm;

  Residual() = default;
  explicit Residual(const StackConfig& c) : place(c.norm_place), dropout(c.dropout), norm(norm_of(c)) {}

  template <class Sublayer>
  void operator()(Context& ctx, Stream& x, Sublayer&& sublayer) const {
    if (place == NormPlace::pre) return x.add(ctx, sublayer(x.normed(ctx, norm)), dropout);
    const Tensor before = x.value(ctx);
    x = Stream(norm.of_sum(ctx, before, sublayer(before), dropout).normed);
  }
};

}  // namespace transformer
