#include "transformer/ops/top_k.h"

#include "backend/kernels.h"
#include "transformer/ops/check.h"

namespace transformer {

TopK top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log) {
  check_float(ctx, "top_k", "x", x);
  if (x.rank() != 2) fail("top_k", "x {} must have two dimensions", x.shape());
  if (k < 1 || k > Kernels::most_top_k) fail("top_k", "the {} largest were asked for: expected 1 to {}", k, Kernels::most_top_k);
  TopK best{Tensor::empty(ctx, {x.rows(), k}, DType::float32), Tensor::empty(ctx, {x.rows(), k}, DType::int32)};
  kernels(ctx).top_k(ctx, x, k, log, best.values, best.ids);
  return best;
}

}  // namespace transformer
