#include "train/weights.h"

#include "transformer/ops/copy.h"
#include "transformer/ops/elementwise.h"

namespace transformer {

Weights tensors_of(const std::vector<NamedParameter>& parameters) {
  Weights out;
  for (const NamedParameter& p : parameters) out.push_back(p.parameter->tensor);
  return out;
}

Weights copy_of(Context& ctx, const Weights& weights) {
  Weights out;
  for (const Tensor& w : weights) copy_into(ctx, w.detach(), out.emplace_back(Tensor::like(ctx, w)));
  return out;
}

Average::Average(Context& ctx, const Weights& averaged, const Arena& arena) : of{arena.weights()}, blocks{arena.block(ctx)} {
  copy_into(ctx, of.front(), blocks.front());
  for (const Tensor& w : averaged) {
    if (const std::size_t* place = arena.find(w)) {
      weights.push_back(arena.part(blocks.front(), *place));
      continue;
    }
    copy_into(ctx, w.detach(), weights.emplace_back(Tensor::like(ctx, w)));
    of.push_back(w.detach()), blocks.push_back(weights.back());
  }
}

void assign(Context& ctx, const Weights& weights, const Weights& values) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Tensor weight = weights[i].detach();
    copy_into(ctx, values[i], weight);
  }
}

void blend(Context& ctx, Weights& mean, float keep, const Weights& weights) {
  const NoGradients no_gradients(ctx);
  for (std::size_t i = 0; i < weights.size(); ++i)
    mean[i] = add(ctx, scale(ctx, mean[i], keep), scale(ctx, weights[i].detach(), 1.0F - keep));
}

}  // namespace transformer
