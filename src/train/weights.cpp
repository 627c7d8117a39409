#include "train/weights.h"

#include "transformer/ops/copy.h"
#include "transformer/ops/elementwise.h"

namespace transformer {

std::vector<Tensor> tensors_of(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> out;
  for (const NamedParameter& p : parameters) out.push_back(p.parameter->tensor.detach());
  return out;
}

Weights copy_of(Context& ctx, const std::vector<NamedParameter>& parameters) {
  Weights out;
  for (const NamedParameter& p : parameters)
    copy_into(ctx, p.parameter->tensor.detach(), out.emplace_back(Tensor::like(ctx, p.parameter->tensor)));
  return out;
}

Average::Average(Context& ctx, const std::vector<NamedParameter>& parameters, const Arena& arena)
    : of{arena.weights()}, blocks{arena.block(ctx)} {
  copy_into(ctx, of.front(), blocks.front());
  for (const NamedParameter& p : parameters) {
    const Tensor weight = p.parameter->tensor.detach();
    if (const std::size_t* place = arena.find(p.parameter->tensor)) {
      weights.push_back(arena.part(blocks.front(), *place));
      continue;
    }
    copy_into(ctx, weight, weights.emplace_back(Tensor::like(ctx, weight)));
    of.push_back(weight), blocks.push_back(weights.back());
  }
}

void assign(Context& ctx, const std::vector<NamedParameter>& parameters, const Weights& values) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Tensor weight = parameters[i].parameter->tensor.detach();
    copy_into(ctx, values[i], weight);
  }
}

void blend(Context& ctx, Weights& mean, float keep, const std::vector<NamedParameter>& parameters) {
  const NoGradients no_gradients(ctx);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    mean[i] = add(ctx, scale(ctx, mean[i], keep), scale(ctx, parameters[i].parameter->tensor.detach(), 1.0F - keep));
}

}  // namespace transformer
