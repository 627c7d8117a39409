#pragma once
// The dropout of an op: checked, none unless the context is training, with a stream of random numbers of its own.

#include "backend/kernels.h"

namespace transformer {

inline DropoutArgs dropout_args(Context& ctx, std::string_view op, float p) {
  if (!(p >= 0.0F && p < 1.0F)) fail(op, "dropout is {}: expected a probability in [0, 1)", p);
  if (!ctx.training() || p == 0.0F) return {};
  return {.p = p, .stream = ctx.random().next()};
}

}  // namespace transformer
