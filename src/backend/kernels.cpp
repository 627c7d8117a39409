// Defaults: kernels that are composed of others, and those that a device lacks, which say so.
#include "backend/kernels.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "core/shared/top_k.h"

namespace transformer {

Unary unary_of(Activation activation) {
  switch (activation) {
    case Activation::none: break;
    case Activation::relu: return Unary::relu;
    case Activation::gelu: return Unary::gelu;
    case Activation::gelu_tanh: return Unary::gelu_tanh;
    case Activation::silu: return Unary::silu;
  }
  fail("activation", "there is nothing to compute for activation {}", static_cast<int>(activation));
}

void Kernels::linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) {
  const bool at_once = !kept.defined() || kept.same_memory(y);
  matmul(ctx, x, weight, at_once ? y : kept,
         {.transpose_b = true, .bias = args.bias, .activation = at_once ? args.activation : Activation::none});
  if (!at_once) unary(ctx, unary_of(args.activation), kept, y);
  if (args.dropout.p > 0.0F) dropout(ctx, y, args.dropout, y);
}

void Kernels::linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept,
                              const Tensor& dy, LinearGradients& out) {
  const Activation activation = args.activation;
  const float p = args.dropout.p;
  Tensor dz = dy;  // gradient before dropout and activation
  if (activation != Activation::none || p > 0.0F) dz = Tensor::like(ctx, dy);
  if (activation == Activation::relu) {
    // A value that is zero after relu and dropout was negative or dropped: no gradient either way.
    activation_backward(ctx, activation, kept, dy, 1.0F / (1.0F - p), dz);
  } else {
    if (p > 0.0F) dropout(ctx, dy, args.dropout, dz);
    if (activation != Activation::none) activation_backward(ctx, activation, kept, p > 0.0F ? dz : dy, 1.0F, dz);
  }
  if (out.dx.defined()) matmul(ctx, dz, weight, out.dx, {.accumulate = out.accumulate_dx});
  if (out.dweight.defined()) matmul(ctx, dz, x, out.dweight, {.transpose_a = true, .accumulate = out.accumulate_dweight});
  if (out.dbias.defined()) sum_rows(ctx, dz, out.dbias, out.accumulate_dbias);
}

void Kernels::add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                                const Tensor& dy, NormGradients& out, Tensor& dsub) {
  norm_backward(ctx, sum, args, mean, rstd, dy, out);
  dropout(ctx, out.dx, args.dropout, dsub);
}

void Kernels::put_rows(Context& ctx, const Tensor& x, const Tensor& to, Tensor& y) {
  std::vector<std::int64_t> from, rows;
  for (const std::int32_t row : to.to_vector<std::int32_t>()) from.push_back(std::ssize(from)), rows.push_back(row);
  copy_rows(ctx, x, from, y, rows);
}

void Kernels::top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) {
  Tensor y = x;
  if (x.dtype() != DType::float32) y = Tensor::empty(ctx, x.shape(), DType::float32), copy(ctx, x, y);
  if (log) {
    Tensor z = Tensor::empty(ctx, x.shape(), DType::float32);
    softmax(ctx, y, true, z);
    y = z;
  }
  std::vector<Scored> best;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    transformer::top_k({y.data<float>() + row * y.row_stride(), static_cast<std::size_t>(y.cols())}, static_cast<std::size_t>(k), best);
    best.resize(static_cast<std::size_t>(k), {-std::numeric_limits<float>::infinity(), -1});
    for (std::int64_t i = 0; i < k; ++i) {
      values.mutable_data<float>()[row * k + i] = best[static_cast<std::size_t>(i)].value;
      ids.mutable_data<std::int32_t>()[row * k + i] = best[static_cast<std::size_t>(i)].id;
    }
  }
}

Tensor Kernels::logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) {
  // So many stay in the cache of a processor, and are enough for a good matrix product.
  const std::int64_t within = (std::int64_t{32} << 20) / (std::max<std::int64_t>(classes, 1) * size_of(dtype));
  return Tensor::empty(ctx, {std::min(rows, std::max<std::int64_t>(within / 64 * 64, 64)), classes}, dtype);
}

void Kernels::begin_step(Context&, const StepState& begun, Tensor& state) {
  state.storage()->backend->to_device(&begun, state.mutable_raw(), offsetof(StepState, updates));
}

void Kernels::fill(Context&, float, Tensor&) { unsupported("fill"); }
void Kernels::copy(Context&, const Tensor&, Tensor&) { unsupported("copy"); }
void Kernels::add_to(Context&, const Tensor&, Tensor&) { unsupported("add_to"); }
void Kernels::strided_copy(Context&, const Shape&, const Tensor&, std::int64_t, const Shape&, Tensor&, std::int64_t, const Shape&, bool) {
  unsupported("strided_copy");
}
void Kernels::copy_rows(Context&, const Tensor&, std::span<const std::int64_t>, Tensor&, std::span<const std::int64_t>) {
  unsupported("copy_rows");
}
void Kernels::uniform(Context&, RandomStream, float, float, Tensor&) { unsupported("uniform"); }
void Kernels::normal(Context&, RandomStream, float, float, Tensor&) { unsupported("normal"); }
void Kernels::dropout(Context&, const Tensor&, const DropoutArgs&, Tensor&) { unsupported("dropout"); }
void Kernels::matmul(Context&, const Tensor&, const Tensor&, Tensor&, const MatmulArgs&) { unsupported("matmul"); }
void Kernels::unary(Context&, Unary, const Tensor&, Tensor&) { unsupported("unary"); }
void Kernels::unary_backward(Context&, Unary, const Tensor&, const Tensor&, Tensor&) { unsupported("unary_backward"); }
void Kernels::activation_backward(Context&, Activation, const Tensor&, const Tensor&, float, Tensor&) {
  unsupported("activation_backward");
}
void Kernels::gated(Context&, Activation, const Tensor&, Tensor&) { unsupported("gated"); }
void Kernels::gated_backward(Context&, Activation, const Tensor&, const Tensor&, Tensor&) { unsupported("gated_backward"); }
void Kernels::binary(Context&, Binary, const Tensor&, const Tensor&, Tensor&) { unsupported("binary"); }
void Kernels::scale(Context&, float, const Tensor&, Tensor&) { unsupported("scale"); }
void Kernels::scale_by(Context&, const Tensor&, Tensor&) { unsupported("scale_by"); }
void Kernels::reduce(Context&, Reduction, const Tensor&, Tensor&, bool) { unsupported("reduce"); }
void Kernels::sum_rows(Context&, const Tensor&, Tensor&, bool) { unsupported("sum_rows"); }
void Kernels::softmax(Context&, const Tensor&, bool, Tensor&) { unsupported("softmax"); }
void Kernels::softmax_backward(Context&, const Tensor&, const Tensor&, bool, Tensor&) { unsupported("softmax_backward"); }
void Kernels::norm(Context&, const Tensor&, const NormArgs&, Tensor&, Tensor&, Tensor&, Tensor&) { unsupported("norm"); }
void Kernels::norm_backward(Context&, const Tensor&, const NormArgs&, const Tensor&, const Tensor&, const Tensor&, NormGradients&) {
  unsupported("norm_backward");
}
void Kernels::batch_statistics(Context&, const Tensor&, Tensor&, Tensor&) { unsupported("batch_statistics"); }
void Kernels::batch_norm(Context&, const Tensor&, const BatchNormArgs&, Tensor&) { unsupported("batch_norm"); }
void Kernels::batch_norm_backward(Context&, const Tensor&, const BatchNormArgs&, bool, const Tensor&, Tensor&, bool, Tensor&, Tensor&) {
  unsupported("batch_norm_backward");
}
void Kernels::embedding(Context&, const Tensor&, const Tensor&, float, Tensor&) { unsupported("embedding"); }
void Kernels::embedding_backward(Context&, const Tensor&, const Tensor&, float, std::int64_t, Tensor&, bool) {
  unsupported("embedding_backward");
}
void Kernels::rope(Context&, const Tensor&, const RopeArgs&, Tensor&) { unsupported("rope"); }
void Kernels::attention(Context&, const Tensor&, const Tensor&, const Tensor&, const AttentionArgs&, Tensor&, Tensor&, Tensor&) {
  unsupported("attention");
}
void Kernels::attention_backward(Context&, const Tensor&, const Tensor&, const Tensor&, const AttentionArgs&, const Tensor&, const Tensor&,
                                 const Tensor&, Tensor&, Tensor&, Tensor&, Tensor&, Tensor&) {
  unsupported("attention_backward");
}
void Kernels::count_targets(Context&, std::string_view, const Tensor&, std::int64_t, std::int64_t, Tensor&) {
  unsupported("count_targets");
}
void Kernels::cross_entropy(Context&, Tensor&, const Tensor&, std::int64_t, float, bool, const Tensor&, Tensor&) {
  unsupported("cross_entropy");
}
void Kernels::total_loss(Context&, const Tensor&, const Tensor&, Tensor&) { unsupported("total_loss"); }
void Kernels::patchify(Context&, const Tensor&, const PatchArgs&, Tensor&) { unsupported("patchify"); }
void Kernels::patchify_backward(Context&, const Tensor&, const PatchArgs&, Tensor&) { unsupported("patchify_backward"); }
void Kernels::add_loss(Context&, const Tensor&, double, Tensor&) { unsupported("add_loss"); }
void Kernels::gradient_norm(Context&, std::span<const Tensor>, Tensor&) { unsupported("gradient_norm"); }
void Kernels::share_step(Context&, Tensor&) { unsupported("share_step"); }
void Kernels::whole_step(Context&, Tensor&) { unsupported("whole_step"); }
void Kernels::adam(Context&, std::span<AdamSlot>, const AdamArgs&, Tensor&) { unsupported("adam"); }
void Kernels::blend(Context&, std::span<Tensor>, float, std::span<const Tensor>, const Tensor&) { unsupported("blend"); }
void Kernels::undo_if_skipped(Context&, std::span<const Tensor>, std::span<Tensor>, const Tensor&) { unsupported("undo_if_skipped"); }
double Kernels::sum_of_squares(Context&, std::span<const Tensor>) { unsupported("sum_of_squares"); }

}  // namespace transformer
