#pragma once
// Kernels that hand every call on to another device's, so that something may be done around each: guarded/ opens its memory,
// profiled/ looks at the clock.

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/kernels.h"

namespace transformer {

// What was asked of a device: the kernel's name, and the bytes of the tensors it was given.
struct KernelCall {
  const char* kernel;
  double bytes;
};

class ForwardingKernels : public Kernels {
 public:
  using Calls = std::vector<std::function<void()>>;
  explicit ForwardingKernels(std::shared_ptr<Kernels> inner) : inner_(std::move(inner)) {}

  void fill(Context& ctx, float value, Tensor& y) override { call("fill", &Kernels::fill, ctx, value, y); }
  void copy(Context& ctx, const Tensor& x, Tensor& y) override { call("copy", &Kernels::copy, ctx, x, y); }
  void add_to(Context& ctx, const Tensor& x, Tensor& y) override { call("add_to", &Kernels::add_to, ctx, x, y); }
  void strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                    std::int64_t y_offset, const Shape& y_strides, bool accumulate) override {
    call("strided_copy", &Kernels::strided_copy, ctx, extent, x, x_offset, x_strides, y, y_offset, y_strides, accumulate);
  }
  void copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to) override {
    call("copy_rows", &Kernels::copy_rows, ctx, x, from, y, to);
  }
  void put_rows(Context& ctx, const Tensor& x, const Tensor& to, Tensor& y) override {
    call("put_rows", &Kernels::put_rows, ctx, x, to, y);
  }
  void uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y) override {
    call("uniform", &Kernels::uniform, ctx, stream, low, high, y);
  }
  void normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y) override {
    call("normal", &Kernels::normal, ctx, stream, mean, deviation, y);
  }
  void dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) override {
    call("dropout", &Kernels::dropout, ctx, x, args, y);
  }
  void matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) override {
    call("matmul", &Kernels::matmul, ctx, a, b, c, args);
  }
  void linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) override {
    call("linear", &Kernels::linear, ctx, x, weight, args, y, kept);
  }
  void linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept, const Tensor& dy,
                       LinearGradients& out) override {
    call("linear_backward", &Kernels::linear_backward, ctx, x, weight, args, kept, dy, out);
  }
  void unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y) override { call("unary", &Kernels::unary, ctx, kind, x, y); }
  void unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx) override {
    call("unary_backward", &Kernels::unary_backward, ctx, kind, x, dy, dx);
  }
  void activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) override {
    call("activation_backward", &Kernels::activation_backward, ctx, kind, x, dy, factor, dx);
  }
  void gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y) override { call("gated", &Kernels::gated, ctx, kind, x, y); }
  void gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) override {
    call("gated_backward", &Kernels::gated_backward, ctx, kind, x, dy, dx);
  }
  void binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y) override {
    call("binary", &Kernels::binary, ctx, kind, a, b, y);
  }
  void scale(Context& ctx, float factor, const Tensor& x, Tensor& y) override { call("scale", &Kernels::scale, ctx, factor, x, y); }
  void scale_by(Context& ctx, const Tensor& factor, Tensor& x) override { call("scale_by", &Kernels::scale_by, ctx, factor, x); }
  void reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) override {
    call("reduce", &Kernels::reduce, ctx, kind, x, y, accumulate);
  }
  void sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) override {
    call("sum_rows", &Kernels::sum_rows, ctx, x, y, accumulate);
  }
  void softmax(Context& ctx, const Tensor& x, bool log, Tensor& y) override { call("softmax", &Kernels::softmax, ctx, x, log, y); }
  void softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) override {
    call("softmax_backward", &Kernels::softmax_backward, ctx, y, dy, log, dx);
  }
  void top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) override {
    call("top_k", &Kernels::top_k, ctx, x, k, log, values, ids);
  }
  void norm(Context& ctx, const Tensor& x, const NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) override {
    call("norm", &Kernels::norm, ctx, x, args, sum, y, mean, rstd);
  }
  void norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     NormGradients& out) override {
    call("norm_backward", &Kernels::norm_backward, ctx, x, args, mean, rstd, dy, out);
  }
  void add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                         NormGradients& out, Tensor& dsub) override {
    call("add_norm_backward", &Kernels::add_norm_backward, ctx, sum, args, mean, rstd, dy, out, dsub);
  }
  void batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) override {
    call("batch_statistics", &Kernels::batch_statistics, ctx, x, mean, variance);
  }
  void batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y) override {
    call("batch_norm", &Kernels::batch_norm, ctx, x, args, y);
  }
  void batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                           bool accumulate, Tensor& dweight, Tensor& dbias) override {
    call("batch_norm_backward", &Kernels::batch_norm_backward, ctx, x, args, of_batch, dy, dx, accumulate, dweight, dbias);
  }
  void embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y) override {
    call("embedding", &Kernels::embedding, ctx, ids, table, scale, y);
  }
  void embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                          bool accumulate) override {
    call("embedding_backward", &Kernels::embedding_backward, ctx, ids, dy, scale, padding, dtable, accumulate);
  }
  void rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y) override { call("rope", &Kernels::rope, ctx, x, args, y); }
  void attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse,
                 Tensor& weights) override {
    call("attention", &Kernels::attention, ctx, q, k, v, args, out, lse, weights);
  }
  void attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias,
                          Tensor& drelative_bias) override {
    call("attention_backward", &Kernels::attention_backward, ctx, q, k, v, args, out, lse, dout, dq, dk, dv, dbias, drelative_bias);
  }
  Tensor logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) override {
    return inner_->logits_room(ctx, rows, classes, dtype);
  }
  void count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                     Tensor& count) override {
    call("count_targets", &Kernels::count_targets, ctx, op, targets, ignore, classes, count);
  }
  void cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing, bool want_gradient,
                     const Tensor& count, Tensor& losses) override {
    call("cross_entropy", &Kernels::cross_entropy, ctx, logits, targets, ignore, smoothing, want_gradient, count, losses);
  }
  void total_loss(Context& ctx, const Tensor& losses, const Tensor& count, Tensor& loss) override {
    call("total_loss", &Kernels::total_loss, ctx, losses, count, loss);
  }
  void patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y) override {
    call("patchify", &Kernels::patchify, ctx, x, args, y);
  }
  void patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx) override {
    call("patchify_backward", &Kernels::patchify_backward, ctx, dy, args, dx);
  }
  void add_loss(Context& ctx, const Tensor& loss, double weight, Tensor& state) override {
    call("add_loss", &Kernels::add_loss, ctx, loss, weight, state);
  }
  void gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state) override {
    call("gradient_norm", &Kernels::gradient_norm, ctx, gradients, state);
  }
  void share_step(Context& ctx, Tensor& state) override { call("share_step", &Kernels::share_step, ctx, state); }
  void whole_step(Context& ctx, Tensor& state) override { call("whole_step", &Kernels::whole_step, ctx, state); }
  void adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state) override {
    call("adam", &Kernels::adam, ctx, slots, args, state);
  }
  void blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state) override {
    call("blend", &Kernels::blend, ctx, means, keep, xs, state);
  }
  void undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state) override {
    call("undo_if_skipped", &Kernels::undo_if_skipped, ctx, before, xs, state);
  }
  double sum_of_squares(Context& ctx, std::span<const Tensor> tensors) override {
    return call("sum_of_squares", &Kernels::sum_of_squares, ctx, tensors);
  }

 protected:
  Kernels& inner() { return *inner_; }
  const Kernels& inner() const { return *inner_; }
  virtual void before(const KernelCall& call) = 0;
  virtual void after() noexcept = 0;
  // Where calls are kept with their arguments, to be made later, instead of being made; null: they are made.
  virtual Calls* keeps() const { return nullptr; }

  template <class Result, class... Parameters, class... Arguments>
  Result call(const char* name, Result (Kernels::*kernel)(Context&, Parameters...), Context& ctx, Arguments&&... arguments) {
    if (Calls* const calls = keeps()) {
      if constexpr (std::is_void_v<Result>)
        return calls->push_back([this, name, kernel, &ctx, kept = std::make_tuple(kept_of(arguments)...)]() mutable {
          std::apply([&](auto&... all) { call(name, kernel, ctx, all...); }, kept);
        });
      else fail(name, "work that is being recorded has not been done: it has no result");
    }
    struct Around {
      ForwardingKernels& self;
      ~Around() { self.after(); }
    };
    before({name, (0.0 + ... + bytes_of(arguments))});
    const Around around{*this};
    return (inner_.get()->*kernel)(ctx, std::forward<Arguments>(arguments)...);
  }

 private:
  template <class T>
  static constexpr bool is_span = requires(const T& x) {
    x.begin();
    typename T::element_type;
  };
  template <class T>
  static auto kept_of(const T& x) {
    if constexpr (is_span<T>) return std::vector<std::remove_const_t<typename T::element_type>>(x.begin(), x.end());
    else return x;
  }
  template <class T>
  static double bytes_of(const T& x) {
    if constexpr (std::is_same_v<T, Tensor>)
      return x.defined() ? static_cast<double>(x.numel()) * static_cast<double>(size_of(x.dtype())) : 0.0;
    else if constexpr (std::is_same_v<T, AdamSlot>)
      return bytes_of(x.gradient) + 2.0 * (bytes_of(x.weight) + bytes_of(x.m) + bytes_of(x.v)) + bytes_of(x.low_precision);
    else if constexpr (std::is_same_v<T, NormGradients>) return bytes_of(x.dx);
    else if constexpr (std::is_same_v<T, NormArgs>) return bytes_of(x.sub);
    else if constexpr (is_span<T>) {
      double sum = 0.0;
      for (const auto& part : x) sum += bytes_of(part);
      return sum;
    } else return 0.0;
  }

  std::shared_ptr<Kernels> inner_;
};

}  // namespace transformer
