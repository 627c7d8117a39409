#include "transformer/ops/cross_entropy.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backend/kernels.h"

namespace transformer {
namespace {

// Checks the targets of n rows and counts those that are not ignored: int64 [1], undefined where the losses are only summed.
Tensor count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t n, std::int64_t vocab,
                     const CrossEntropyOptions& options) {
  if (!targets.defined()) fail(op, "the targets are undefined");
  if (targets.device() != ctx.device()) fail(op, "the targets are on {}, the context on {}", targets.device(), ctx.device());
  if (targets.rank() != 1 || targets.dim(0) != n) fail(op, "targets {} do not fit {} rows: expected [{}]", targets.shape(), n, n);
  if (targets.dtype() != DType::int32 && targets.dtype() != DType::int64)
    fail(op, "targets {} are {}: expected int32 or int64", targets.shape(), targets.dtype());
  if (!(options.label_smoothing >= 0.0F && options.label_smoothing <= 1.0F))
    fail(op, "label smoothing is {}: expected a value in [0, 1]", options.label_smoothing);
  Tensor count = Tensor::empty(ctx, {1}, DType::int64);
  kernels(ctx).count_targets(ctx, op, targets, options.ignore, vocab, count);
  return options.reduction == CrossEntropyOptions::mean ? count : Tensor();
}

void check_matrix(Context& ctx, std::string_view op, const char* name, const Tensor& t) {
  if (!t.defined()) fail(op, "{} is undefined", name);
  if (t.device() != ctx.device()) fail(op, "{} is on {}, the context on {}", name, t.device(), ctx.device());
  if (!is_float(t.dtype())) fail(op, "{} must hold floating-point values, got {}", name, t.dtype());
  if (t.rank() != 2) fail(op, "{} is {}: expected two dimensions", name, t.shape());
}

Tensor total(Context& ctx, const Tensor& losses, const Tensor& count) {
  Tensor loss = Tensor::empty(ctx, {1});
  kernels(ctx).total_loss(ctx, losses, count, loss);
  return loss;
}

// weight, and below it as many rows of zeros as there must be.
Tensor with_rows_of_zeros(Context& ctx, const Tensor& weight, std::int64_t rows) {
  Tensor all = Tensor::empty(ctx, {rows, weight.dim(1)}, weight.dtype());
  Tensor first = all.row_block(0, weight.dim(0)), rest = all.row_block(weight.dim(0), rows - weight.dim(0));
  kernels(ctx).copy(ctx, weight, first);
  kernels(ctx).fill(ctx, 0.0F, rest);
  return all;
}

// Hands over gradients computed in forward for dy = 1.
Backward hand_over(std::vector<Tensor> gradients) {
  return [gradients = std::move(gradients)](Context& ctx, const Tensor& dy, Slots& in) mutable {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!in[i].needed()) continue;
      kernels(ctx).scale_by(ctx, dy, gradients[i]);
      in[i].add(ctx, gradients[i]);
    }
  };
}

}  // namespace

Tensor cross_entropy(Context& ctx, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  constexpr std::string_view op = "cross_entropy";
  check_matrix(ctx, op, "logits", logits);
  const std::int64_t n = logits.dim(0);
  const Tensor count = count_targets(ctx, op, targets, n, logits.dim(1), options);
  const bool recorded = records(ctx, {logits});
  Tensor losses = Tensor::empty(ctx, {n});
  Tensor work = logits.detach();
  if (recorded) {  // the logits belong to the caller: their gradient is made in a copy
    work = Tensor::like(ctx, logits);
    kernels(ctx).copy(ctx, logits, work);
  }
  kernels(ctx).cross_entropy(ctx, work, targets, options.ignore, options.label_smoothing, recorded, count, losses);
  const Tensor loss = total(ctx, losses, count);
  return recorded ? record(ctx, loss, {logits}, hand_over({work})) : loss;
}

Tensor linear_cross_entropy(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            const CrossEntropyOptions& options) {
  constexpr std::string_view op = "linear_cross_entropy";
  check_matrix(ctx, op, "x", x);
  check_matrix(ctx, op, "weight", weight);
  const std::int64_t n = x.dim(0), vocab = weight.dim(0);
  if (x.dim(1) != weight.dim(1)) fail(op, "x {} does not fit weight {}: expected x [n, {}]", x.shape(), weight.shape(), weight.dim(1));
  if (bias.defined() && bias.shape() != Shape{vocab})
    fail(op, "bias {} does not fit weight {}: expected [{}]", bias.shape(), weight.shape(), vocab);
  if (bias.defined() && bias.device() != ctx.device()) fail(op, "bias is on {}, the context on {}", bias.device(), ctx.device());
  if (bias.defined() && bias.dtype() != x.dtype() && bias.dtype() != DType::float32)
    fail(op, "bias is {}: expected float32 or {}, the type of x", bias.dtype(), x.dtype());
  if (options.fixed_row >= vocab) fail(op, "fixed_row is {}: weight {} has no such row", options.fixed_row, weight.shape());
  if (options.chunk_rows < 0) fail(op, "chunk_rows is {}: expected 0 or more", options.chunk_rows);
  const Tensor count = count_targets(ctx, op, targets, n, vocab, options);

  // Gradients that will be asked for; the weight's and the bias's are summed over the chunks in float32.
  const bool recorded = records(ctx, {x, weight, bias});
  Tensor dx, dweight, dbias;
  if (recorded && has_gradient(x)) dx = Tensor::like(ctx, x);
  if (recorded && has_gradient(weight)) dweight = gradient_room(ctx, weight);
  if (recorded && has_gradient(bias)) dbias = gradient_room(ctx, bias);
  if (n == 0) {
    for (Tensor* g : {&dx, &dweight, &dbias})
      if (g->defined()) kernels(ctx).fill(ctx, 0.0F, *g);
    return record(ctx, Tensor::zeros(ctx, {1}), {x, weight, bias}, hand_over({dx, dweight, dbias}));
  }

  Tensor w = in_precision(ctx, weight, x.dtype());
  const Tensor room = kernels(ctx).logits_room(ctx, options.chunk_rows != 0 ? std::min(n, options.chunk_rows) : n, vocab, x.dtype());
  const std::int64_t chunk = room.dim(0);
  // A device may want more columns than there are classes: they belong to rows of zeros below the weight, and get no gradient.
  const std::int64_t columns = bias.defined() ? vocab : room.dim(1);
  const bool padded = columns > vocab;
  Tensor wide_dweight = dweight;
  if (padded) {
    w = with_rows_of_zeros(ctx, w, columns);
    if (dweight.defined()) wide_dweight = Tensor::empty(ctx, {columns, x.dim(1)}, dweight.dtype());
  }
  Tensor losses = Tensor::empty(ctx, {n});
  for (std::int64_t begin = 0; begin < n; begin += chunk) {
    const std::int64_t rows = std::min(chunk, n - begin);
    const bool accumulate = begin > 0;
    const Tensor x_chunk = x.row_block(begin, rows);  // [rows, d]
    Tensor wide = room.row_block(0, rows).column_block(0, columns);
    Tensor logits = wide.column_block(0, vocab);  // [rows, vocab], then their gradient
    Tensor losses_chunk = losses.row_block(begin, rows);
    kernels(ctx).matmul(ctx, x_chunk, w, wide, {.transpose_b = true, .bias = bias.detach()});
    kernels(ctx).cross_entropy(ctx, logits, targets.row_block(begin, rows), options.ignore, options.label_smoothing, recorded, count,
                               losses_chunk);
    if (padded && recorded) {
      Tensor rest = wide.column_block(vocab, columns - vocab);
      kernels(ctx).fill(ctx, 0.0F, rest);
    }
    if (dx.defined()) {
      Tensor dx_chunk = dx.row_block(begin, rows);
      kernels(ctx).matmul(ctx, wide, w, dx_chunk, {});
    }
    if (dweight.defined())
      kernels(ctx).matmul(ctx, wide, x_chunk, wide_dweight, {.transpose_a = true, .accumulate = accumulate, .bias = {}});
    if (dbias.defined()) kernels(ctx).sum_rows(ctx, logits, dbias, accumulate);
  }
  if (padded && dweight.defined()) kernels(ctx).copy(ctx, wide_dweight.row_block(0, vocab), dweight);
  if (dweight.defined() && options.fixed_row >= 0) {
    Tensor fixed = dweight.row_block(options.fixed_row, 1);
    kernels(ctx).fill(ctx, 0.0F, fixed);
  }
  return record(ctx, total(ctx, losses, count), {x, weight, bias}, hand_over({dx, dweight, dbias}));
}

}  // namespace transformer
