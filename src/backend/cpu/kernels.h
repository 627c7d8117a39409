#pragma once
// The CPU's kernels, one file per op, each compiled for several instruction sets and picked at run time.

#include <memory>

#include "backend/kernels.h"

namespace transformer {

class MatmulCache;  // oneDNN primitives by shape, see matmul.cpp

class CpuKernels final : public Kernels {
 public:
  CpuKernels();
  ~CpuKernels() override;
  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* data, std::size_t bytes) noexcept override;
  std::string description() const override;

  void fill(Context& ctx, float value, Tensor& y) override;
  void copy(Context& ctx, const Tensor& x, Tensor& y) override;
  void add_to(Context& ctx, const Tensor& x, Tensor& y) override;
  void strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                    std::int64_t y_offset, const Shape& y_strides, bool accumulate) override;
  void copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to) override;
  void uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y) override;
  void normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y) override;
  void dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) override;
  void matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) override;
  void linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) override;
  void linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept, const Tensor& dy,
                       LinearGradients& out) override;
  void unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y) override;
  void unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx) override;
  void activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) override;
  void gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y) override;
  void gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) override;
  void binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y) override;
  void scale(Context& ctx, float factor, const Tensor& x, Tensor& y) override;
  void scale_by(Context& ctx, const Tensor& factor, Tensor& x) override;
  void reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) override;
  void sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) override;
  void softmax(Context& ctx, const Tensor& x, bool log, Tensor& y) override;
  void top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) override;
  void softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) override;
  void norm(Context& ctx, const Tensor& x, const NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) override;
  void norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     NormGradients& out) override;
  void add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                         NormGradients& out, Tensor& dsub) override;
  void batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) override;
  void batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y) override;
  void batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                           bool accumulate, Tensor& dweight, Tensor& dbias) override;
  void embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y) override;
  void embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                          bool accumulate) override;
  void rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y) override;
  void attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse,
                 Tensor& weights) override;
  void attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias,
                          Tensor& drelative_bias) override;
  Tensor logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) override;
  void count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                     Tensor& count) override;
  void cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing, bool want_gradient,
                     const Tensor& count, Tensor& losses) override;
  void total_loss(Context& ctx, const Tensor& losses, const Tensor& count, Tensor& loss) override;
  void patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y) override;
  void patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx) override;
  void add_loss(Context& ctx, const Tensor& loss, double weight, Tensor& state) override;
  void gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state) override;
  void share_step(Context& ctx, Tensor& state) override;
  void whole_step(Context& ctx, Tensor& state) override;
  void adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state) override;
  void blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state) override;
  void undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state) override;
  double sum_of_squares(Context& ctx, std::span<const Tensor> tensors) override;

 protected:
  const char* device_name() const override { return "cpu"; }

 private:
  void split_matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args);

  std::unique_ptr<MatmulCache> matmuls_;
};

}  // namespace transformer
