#pragma once
// The kernels of an NVIDIA GPU: cuBLASLt for matrix products, our own CUDA for the rest, one file per op.

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda_report.h"
#include "backend/kernels.h"

namespace transformer {

class CublasLt;  // products by shape, see cublaslt.h
class CudaPass;  // what is done at the end of a pass, see pass.h
class CudaPasses;
class PinnedPlaces;  // where results arrive, see device.cu
class Staging;       // pinned memory on the way to the device, see device.cu

// What a card was asked to do since the last report.
struct CudaCounts {
  std::atomic<std::int64_t> launches = 0;  // kernels
  std::atomic<std::int64_t> waits = 0;     // of the host for the device
};
struct CudaTime {
  const char* kernel;
  cudaEvent_t begin, end;
};

// One for each card, shared by all contexts of the program: work is done in the order in which it was asked for, on one stream, so that
// memory may be used again as soon as the host has let go of it.
class CudaKernels final : public Kernels {
 public:
  explicit CudaKernels(int device);
  ~CudaKernels() override;

  std::byte* allocate(std::size_t bytes) override;
  void deallocate(std::byte* data, std::size_t bytes) noexcept override;
  void release_freed() override;
  bool host_access() const override { return false; }
  void to_device(const void* from, std::byte* to, std::size_t bytes) override;
  void to_host(const std::byte* from, void* to, std::size_t bytes) override;
  std::unique_ptr<Arrival> to_host_later(const std::byte* from, void* to, std::size_t bytes) override;
  void synchronize() override;
  std::shared_ptr<Communicator> communicator(std::shared_ptr<Communicator> hosts) override;
  std::string description() const override;
  int steps_ahead() const override { return 3; }
  bool has_passes() const override { return true; }
  void begin_pass(std::uint32_t random_step) override;
  void end_pass(bool wanted) override;
  bool records() const override { return !timing_; }
  std::unique_ptr<Recorded> record(const std::function<void()>& work) override;

  void fill(Context& ctx, float value, Tensor& y) override;
  void copy(Context& ctx, const Tensor& x, Tensor& y) override;
  void add_to(Context& ctx, const Tensor& x, Tensor& y) override;
  void strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                    std::int64_t y_offset, const Shape& y_strides, bool accumulate) override;
  void copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to) override;
  void put_rows(Context& ctx, const Tensor& x, const Tensor& to, Tensor& y) override;
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
  void softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) override;
  void top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) override;
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

  // --- for the files of this folder -----------------------------------------------------------------------------------------
  void use() const;  // makes this card the calling thread's
  // Where this thread's kernels go: to be done, or written down.
  cudaStream_t stream() const { return recording() ? recorder_ : stream_; }
  bool recording() const;  // this thread's kernels, see recorded.cu
  void repeat(cudaGraphExec_t work);
  void launching();                   // before every launch
  void launched(const char* kernel);  // after every launch: counts it, and makes CUDA's complaint an Error that names the kernel
  void time_kernels(bool on) { timing_ = on; }
  bool is_timing() const { return timing_; }
  void count_launches(std::int64_t launches) { counts_.launches += launches; }
  const std::uint32_t* random_step(
      std::uint32_t step) const;  // where the pass has it on the card; null: there is no pass, or it has another
  CudaPass* pass() const;         // that the calling thread is in; null: work is done as it comes
  CudaReport take_report();
  std::size_t most_shared_memory() const { return most_shared_memory_; }  // of a block, in bytes: cards differ
  bool starts_early() const { return starts_early_; }                     // kernels, before the last one has ended
  std::string measure_products(Context& ctx);

 protected:
  const char* device_name() const override { return name_.c_str(); }

 private:
  int device_;
  std::string name_;  // "cuda:0"
  std::size_t most_shared_memory_ = 0;
  bool starts_early_ = false;
  cudaStream_t stream_ = nullptr;
  cudaStream_t recorder_ = nullptr;  // nothing ever runs on it
  std::mutex recorder_mutex_;
  CudaCounts counts_;
  bool timing_ = false;
  std::vector<CudaTime> times_;
  std::mutex mutex_;  // of the parts below
  std::unique_ptr<Staging> staging_;
  std::shared_ptr<PinnedPlaces> places_;
  std::unique_ptr<CublasLt> products_;
  std::unique_ptr<CudaPasses> passes_;
};

inline CudaKernels& cuda(Context& ctx) { return static_cast<CudaKernels&>(ctx.backend()); }

}  // namespace transformer
