#include "transformer/ops/embedding.h"

#include <vector>

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
Tensor embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, std::optional<DType> dtype, std::int64_t padding) {
  check_index(ctx, "embedding", "ids", ids);
  check_float(ctx, "embedding", "table", table);
  if (table.rank() != 2) fail("embedding", "table {} must have two dimensions [rows, d]", table.shape());
  if (ids.rank() == Shape::max_rank) fail("embedding", "ids {} have no room for one more dimension", ids.shape());
  std::vector<std::int64_t> dims(ids.shape().begin(), ids.shape().end());
  dims.push_back(table.dim(1));
  Tensor y = Tensor::empty(ctx, Shape(dims), dtype.value_or(ctx.precision()));
  kernels(ctx).embedding(ctx, ids, table, scale, y);
  y = record(ctx, y, {table},
             [ids, scale, shape = table.shape(), dtype = table.dtype(), padding](Context& ctx, const Tensor& dy, Slots& in) {
    if (dtype == DType::float32) {
      auto [dtable, accumulate] = in[0].target(ctx);
      kernels(ctx).embedding_backward(ctx, ids, dy, scale, padding, dtable, accumulate);
    } else {  // repeated ids add up in float32, then round once
      Tensor dtable = Tensor::empty(ctx, shape, DType::float32);
      kernels(ctx).embedding_backward(ctx, ids, dy, scale, padding, dtable, false);
      in[0].add(ctx, dtable);
    }
  });
  if (table.dtype() == DType::float32 && y.node()) y.node()->rows = ids;
  return y;
}

}  // namespace transformer
