#include "transformer/ops/top_k.h"

#include "backend/kernels.h"
#include "transformer/ops/check.h"

namespace transformer {

TopK top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log) {
  check_float(ctx, "top_k", "x", x);
  if (x.rank() != 2) fail("top_k", "x {} must have two dimensions", x.shape());
  if (k < 1 || k > Kernels::most_top_k) fail("top_k", "the {} largest were asked for: expected 1 to {}", k, Kernels::most_top_k);
  const std::int64_t n = x.rows() * k;
  TopK best{.both = Tensor::empty(ctx, {2 * n}, DType::int32)};
  best.values = Tensor::of(best.both.storage(), DType::float32).row_block(0, n).view({x.rows(), k});
  best.ids = best.both.row_block(n, n).view({x.rows(), k});
  kernels(ctx).top_k(ctx, x, k, log, best.values, best.ids);
  return best;
}

}  // namespace transformer
