#include "backend/cpu/kernels.h"
// Kernels still to be written; each line goes away with its kernel.
namespace transformer {
void CpuKernels::uniform(Context&, RandomStream, float, float, Tensor&) { unsupported("uniform"); }
void CpuKernels::normal(Context&, RandomStream, float, float, Tensor&) { unsupported("normal"); }
void CpuKernels::dropout(Context&, const Tensor&, const DropoutArgs&, Tensor&) { unsupported("dropout"); }
void CpuKernels::unary(Context&, Unary, const Tensor&, Tensor&) { unsupported("unary"); }
void CpuKernels::unary_backward(Context&, Unary, const Tensor&, const Tensor&, Tensor&) { unsupported("unary_backward"); }
void CpuKernels::activation_backward(Context&, Activation, const Tensor&, const Tensor&, Tensor&) { unsupported("activation_backward"); }
void CpuKernels::gated(Context&, Activation, const Tensor&, Tensor&) { unsupported("gated"); }
void CpuKernels::gated_backward(Context&, Activation, const Tensor&, const Tensor&, Tensor&) { unsupported("gated_backward"); }
void CpuKernels::binary(Context&, Binary, const Tensor&, const Tensor&, Tensor&) { unsupported("binary"); }
void CpuKernels::scale(Context&, float, const Tensor&, Tensor&) { unsupported("scale"); }
void CpuKernels::reduce(Context&, Reduction, const Tensor&, Tensor&, bool) { unsupported("reduce"); }
void CpuKernels::sum_rows(Context&, const Tensor&, Tensor&, bool) { unsupported("sum_rows"); }
void CpuKernels::softmax(Context&, const Tensor&, bool, Tensor&) { unsupported("softmax"); }
void CpuKernels::softmax_backward(Context&, const Tensor&, const Tensor&, bool, Tensor&) { unsupported("softmax_backward"); }
void CpuKernels::norm(Context&, const Tensor&, const NormArgs&, Tensor&, Tensor&, Tensor&, Tensor&) { unsupported("norm"); }
void CpuKernels::norm_backward(Context&, const Tensor&, const NormArgs&, const Tensor&, const Tensor&, const Tensor&, NormGradients&) { unsupported("norm_backward"); }
void CpuKernels::embedding(Context&, const Tensor&, const Tensor&, float, Tensor&) { unsupported("embedding"); }
void CpuKernels::embedding_backward(Context&, const Tensor&, const Tensor&, float, Tensor&, bool) { unsupported("embedding_backward"); }
void CpuKernels::rope(Context&, const Tensor&, const RopeArgs&, Tensor&) { unsupported("rope"); }
void CpuKernels::attention(Context&, const Tensor&, const Tensor&, const Tensor&, const AttentionArgs&, Tensor&, Tensor&, Tensor&) { unsupported("attention"); }
void CpuKernels::attention_backward(Context&, const Tensor&, const Tensor&, const Tensor&, const AttentionArgs&, const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&, Tensor&, Tensor&) { unsupported("attention_backward"); }
void CpuKernels::patchify(Context&, const Tensor&, const PatchArgs&, Tensor&) { unsupported("patchify"); }
void CpuKernels::patchify_backward(Context&, const Tensor&, const PatchArgs&, Tensor&) { unsupported("patchify_backward"); }
double CpuKernels::sum_of_squares(Context&, std::span<const Tensor>) { unsupported("sum_of_squares"); }
void CpuKernels::adam(Context&, std::span<AdamSlot>, const AdamArgs&) { unsupported("adam"); }
}
