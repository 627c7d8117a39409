// Defaults: a device that lacks a kernel says so.
#include "backend/kernels.h"

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
void Kernels::begin_step(Context&, Tensor&) { unsupported("begin_step"); }
void Kernels::add_loss(Context&, const Tensor&, double, Tensor&) { unsupported("add_loss"); }
void Kernels::gradient_norm(Context&, std::span<const Tensor>, Tensor&) { unsupported("gradient_norm"); }
void Kernels::adam(Context&, std::span<AdamSlot>, const AdamArgs&, Tensor&) { unsupported("adam"); }
void Kernels::blend(Context&, std::span<Tensor>, float, std::span<const Tensor>, const Tensor&) { unsupported("blend"); }
void Kernels::undo_if_skipped(Context&, std::span<const Tensor>, std::span<Tensor>, const Tensor&) { unsupported("undo_if_skipped"); }
double Kernels::sum_of_squares(Context&, std::span<const Tensor>) { unsupported("sum_of_squares"); }

}  // namespace transformer
