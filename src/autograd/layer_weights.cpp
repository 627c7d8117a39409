#include "transformer/autograd/layer_weights.h"

namespace transformer {

Tensor between_layers(Context& ctx, const Tensor& x, const void* before, const void* after) {
  LayerWeights* weights = ctx.layer_weights();
  if (weights == nullptr) return x;
  weights->pass_on(ctx, before, after, false);
  return record(ctx, x.detach(), {x}, [weights, before, after](Context& c, const Tensor& dy, Slots& in) {
    weights->pass_on(c, after, before, true);
    in[0].add(c, dy);
  });
}

void read_layer(Context& ctx, const void* layer) {
  if (LayerWeights* weights = ctx.layer_weights()) weights->read(ctx, layer);
}

void write_weight(Context& ctx, const Tensor& weight, const std::function<void()>& fill) {
  if (LayerWeights* weights = ctx.layer_weights()) weights->write(ctx, weight, fill);
  else fill();
}

}  // namespace transformer
