#include "transformer/ops/dropout.h"

#include "ops/dropout_args.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {

Tensor dropout(Context& ctx, const Tensor& x, float p) {
  check_float(ctx, "dropout", "x", x);
  const DropoutArgs args = dropout_args(ctx, "dropout", p);
  if (args.p == 0.0F) return x;
  Tensor y = Tensor::like(ctx, x);
  kernels(ctx).dropout(ctx, x, args, y);
  return record(ctx, y, {x}, [args](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dx = Tensor::like(ctx, dy);
    kernels(ctx).dropout(ctx, dy, args, dx);
    in[0].add(ctx, dx);
  });
}

Tensor drop_sequences(Context& ctx, const Tensor& x, const Sequences& sequences, float p) {
  check_float(ctx, "drop_sequences", "x", x);
  if (x.rank() != 2 || x.dim(0) != sequences.total())
    fail("drop_sequences", "x {} does not fit: expected [{} tokens, d]", x.shape(), sequences.total());
  if (!ctx.training() || p == 0.0F) return x;
  const std::int64_t count = sequences.count(), length = sequences.longest();
  const Tensor kept = dropout(ctx, Tensor::full(ctx, {count, 1}, 1.0F, x.dtype()), p);
  if (count * length == sequences.total())
    return reshape(ctx, mul(ctx, reshape(ctx, x, {count, length, x.dim(1)}), kept.view({count, 1, 1})), x.shape());
  std::vector<std::int64_t> of_token(static_cast<std::size_t>(sequences.total()));
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < sequences.length(i); ++j) of_token[static_cast<std::size_t>(sequences.begin(i) + j)] = i;
  const Tensor rows = embedding(ctx, Tensor::from<std::int64_t>(ctx, {sequences.total()}, of_token), kept, 1.0F, x.dtype());
  return mul(ctx, x, rows);
}

}  // namespace transformer
