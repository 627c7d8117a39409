#include "transformer/ops/embedding.h"

#include <vector>

#include "backend/kernels.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

// The tokens that are not padding: their ids and their rows of dy.
void leave_out(Context& ctx, std::int64_t padding, Tensor& ids, Tensor& dy) {
  std::vector<std::int64_t> kept, rows;
  const std::vector<std::int64_t> all = visit_index("embedding", ids.dtype(), [&]<class T>() {
    const std::vector<T> values = ids.to_vector<T>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  });
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] != padding) kept.push_back(all[i]), rows.push_back(static_cast<std::int64_t>(i));
  if (kept.size() == all.size()) return;
  const auto count = static_cast<std::int64_t>(kept.size());
  Tensor some = Tensor::empty(ctx, {count, dy.cols()}, dy.dtype());
  if (count > 0) kernels(ctx).embedding(ctx, Tensor::from<std::int64_t>(ctx, {count}, rows), dy.view({dy.rows(), dy.cols()}), 1.0F, some);
  ids = Tensor::from<std::int64_t>(ctx, {count}, kept);
  dy = some;
}

}  // namespace

Tensor embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, std::optional<DType> dtype, std::int64_t padding) {
  check_index(ctx, "embedding", "ids", ids);
  check_float(ctx, "embedding", "table", table);
  if (table.rank() != 2) fail("embedding", "table {} must have two dimensions [rows, d]", table.shape());
  if (ids.rank() == Shape::max_rank) fail("embedding", "ids {} have no room for one more dimension", ids.shape());
  std::vector<std::int64_t> dims(ids.shape().begin(), ids.shape().end());
  dims.push_back(table.dim(1));
  Tensor y = Tensor::empty(ctx, Shape(dims), dtype.value_or(ctx.precision()));
  kernels(ctx).embedding(ctx, ids, table, scale, y);
  return record(ctx, y, {table},
                [given = ids, scale, shape = table.shape(), dtype = table.dtype(), padding](Context& ctx, const Tensor& dy_all, Slots& in) {
    Tensor ids = given, dy = dy_all;
    if (padding >= 0) leave_out(ctx, padding, ids, dy);
    if (dtype == DType::float32) {
      auto [dtable, accumulate] = in[0].target(ctx);
      kernels(ctx).embedding_backward(ctx, ids, dy, scale, dtable, accumulate);
    } else {  // repeated ids add up in float32, then round once
      Tensor dtable = Tensor::empty(ctx, shape, DType::float32);
      kernels(ctx).embedding_backward(ctx, ids, dy, scale, dtable, false);
      in[0].add(ctx, dtable);
    }
  });
}

}  // namespace transformer
