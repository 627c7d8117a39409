#include "transformer/nn/embedding.h"

#include "transformer/ops/shape.h"

namespace transformer {

Tensor PatchEmbedding::operator()(Context& ctx, const Tensor& images) const {
  return projection(ctx, cast(ctx, patchify(ctx, images, patches), ctx.precision()));
}

Tensor SeriesEmbedding::operator()(Context& ctx, const Tensor& series) const {
  return projection(ctx, cast(ctx, patchify_series(ctx, series, patch, stride), ctx.precision()));
}

}  // namespace transformer
