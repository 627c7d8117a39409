#pragma once
// How the weights of a model that is trained from nothing begin.

#include "transformer/nn/parameter.h"

namespace transformer {

// As Hugging Face does it: what is drawn is drawn from N(0, deviation); biases stay 0 and norms 1.
inline void draw_normal(const std::vector<NamedParameter>& parameters, float deviation) {
  for (const auto& [name, p] : parameters) {
    if (p->init != Init::xavier_uniform && p->init != Init::normal) continue;
    p->init = Init::normal;
    p->deviation = deviation;
  }
}

}  // namespace transformer
