// The CPU's kernels on memory that the host cannot touch: a device for tests. What would read a GPU's memory through a pointer
// faults here, or is an Error, on any machine; launches and waits are counted. TRANSFORMER_DEVICE=guarded runs anything on it.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/guarded/counts.h"
#include "backend/kernels.h"
#include "core/shared/pool.h"

namespace transformer {
namespace {

// One stretch of addresses for all contexts, as a GPU has one memory. It is open while a kernel or a copy runs.
class GuardedMemory {
 public:
  static GuardedMemory& instance() {
    static GuardedMemory* memory = new GuardedMemory;  // tensors may outlive everything else
    return *memory;
  }

  std::byte* allocate(std::size_t bytes) {
    const std::size_t size = (bytes + page - 1) / page * page;
    const std::lock_guard lock(mutex_);
    if (const auto it = free_.lower_bound(size); it != free_.end() && it->first <= size + size / 2) {
      std::byte* at = it->second;
      sizes_[at] = it->first;
      free_.erase(it);
      return at;
    }
    if (size > reserved - used_) fail("guarded", "out of memory: {} bytes asked for, {} of {} in use", bytes, used_, reserved);
    std::byte* at = base_ + used_;
    if (open_ > 0 && mprotect(at, size, PROT_READ | PROT_WRITE) != 0) fail("guarded", "out of memory: {} bytes asked for", bytes);
    used_ += size;
    sizes_[at] = size;
    return at;
  }

  void deallocate(std::byte* at) noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = sizes_.find(at);
    free_.emplace(it->second, at);
    sizes_.erase(it);
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    if (--open_ == 0) protect(PROT_NONE);
  }

 private:
  static constexpr std::size_t page = 4096, reserved = std::size_t{64} << 30;

  GuardedMemory() {
    void* at = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) fail("guarded", "cannot reserve {} bytes of addresses", reserved);
    base_ = static_cast<std::byte*>(at);
#ifdef MADV_HUGEPAGE
    madvise(base_, reserved, MADV_HUGEPAGE);  // every kernel changes the rights of all pages: the fewer, the better
#endif
  }
  void protect(int rights) noexcept {
    if (used_ > 0) mprotect(base_, used_, rights);
  }

  std::mutex mutex_;
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
  int open_ = 0;
  std::multimap<std::size_t, std::byte*> free_;  // by size
  std::map<std::byte*, std::size_t> sizes_;
};

thread_local int opened_here = 0;  // by this thread: what others do gives it no access

class Opened {
 public:
  Opened() { GuardedMemory::instance().open(), ++opened_here; }
  ~Opened() { --opened_here, GuardedMemory::instance().close(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

std::atomic<std::int64_t> launches = 0, waits = 0, uploads = 0;

// There when the host has launched a few more kernels, as the answer of a device that is behind would be.
class LaterArrival final : public Arrival {
 public:
  bool there() override { return launches - begun_ > 8; }
  void wait() override {
    if (!there()) ++waits;
  }

 private:
  std::int64_t begun_ = launches;
};

class GuardedKernels final : public Kernels {
 public:
  std::byte* allocate(std::size_t bytes) override { return GuardedMemory::instance().allocate(bytes); }
  void deallocate(std::byte* data, std::size_t) noexcept override { GuardedMemory::instance().deallocate(data); }
  bool host_access() const override { return opened_here > 0 || parallel_seat() > 0; }  // a seat: a kernel's own threads
  void to_device(const void* from, std::byte* to, std::size_t bytes) override {
    ++uploads;
    const Opened opened;
    std::memcpy(to, from, bytes);
  }
  void to_host(const std::byte* from, void* to, std::size_t bytes) override {
    ++waits;
    const Opened opened;
    std::memcpy(to, from, bytes);
  }
  std::unique_ptr<Arrival> to_host_later(const std::byte* from, void* to, std::size_t bytes) override {
    const Opened opened;
    std::memcpy(to, from, bytes);
    return std::make_unique<LaterArrival>();
  }
  void synchronize() override { ++waits; }
  std::string description() const override { return "the CPU behind memory that the host cannot touch, for tests"; }
  int steps_ahead() const override { return 3; }

  void fill(Context& ctx, float value, Tensor& y) override { call(&Kernels::fill, ctx, value, y); }
  void copy(Context& ctx, const Tensor& x, Tensor& y) override { call(&Kernels::copy, ctx, x, y); }
  void add_to(Context& ctx, const Tensor& x, Tensor& y) override { call(&Kernels::add_to, ctx, x, y); }
  void strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                    std::int64_t y_offset, const Shape& y_strides, bool accumulate) override {
    call(&Kernels::strided_copy, ctx, extent, x, x_offset, x_strides, y, y_offset, y_strides, accumulate);
  }
  void copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to) override {
    call(&Kernels::copy_rows, ctx, x, from, y, to);
  }
  void uniform(Context& ctx, RandomStream stream, float low, float high, Tensor& y) override {
    call(&Kernels::uniform, ctx, stream, low, high, y);
  }
  void normal(Context& ctx, RandomStream stream, float mean, float deviation, Tensor& y) override {
    call(&Kernels::normal, ctx, stream, mean, deviation, y);
  }
  void dropout(Context& ctx, const Tensor& x, const DropoutArgs& args, Tensor& y) override { call(&Kernels::dropout, ctx, x, args, y); }
  void matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) override {
    call(&Kernels::matmul, ctx, a, b, c, args);
  }
  void unary(Context& ctx, Unary kind, const Tensor& x, Tensor& y) override { call(&Kernels::unary, ctx, kind, x, y); }
  void unary_backward(Context& ctx, Unary kind, const Tensor& x, const Tensor& dy, Tensor& dx) override {
    call(&Kernels::unary_backward, ctx, kind, x, dy, dx);
  }
  void activation_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, float factor, Tensor& dx) override {
    call(&Kernels::activation_backward, ctx, kind, x, dy, factor, dx);
  }
  void gated(Context& ctx, Activation kind, const Tensor& x, Tensor& y) override { call(&Kernels::gated, ctx, kind, x, y); }
  void gated_backward(Context& ctx, Activation kind, const Tensor& x, const Tensor& dy, Tensor& dx) override {
    call(&Kernels::gated_backward, ctx, kind, x, dy, dx);
  }
  void binary(Context& ctx, Binary kind, const Tensor& a, const Tensor& b, Tensor& y) override {
    call(&Kernels::binary, ctx, kind, a, b, y);
  }
  void scale(Context& ctx, float factor, const Tensor& x, Tensor& y) override { call(&Kernels::scale, ctx, factor, x, y); }
  void scale_by(Context& ctx, const Tensor& factor, Tensor& x) override { call(&Kernels::scale_by, ctx, factor, x); }
  void reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) override {
    call(&Kernels::reduce, ctx, kind, x, y, accumulate);
  }
  void sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) override { call(&Kernels::sum_rows, ctx, x, y, accumulate); }
  void softmax(Context& ctx, const Tensor& x, bool log, Tensor& y) override { call(&Kernels::softmax, ctx, x, log, y); }
  void softmax_backward(Context& ctx, const Tensor& y, const Tensor& dy, bool log, Tensor& dx) override {
    call(&Kernels::softmax_backward, ctx, y, dy, log, dx);
  }
  void norm(Context& ctx, const Tensor& x, const NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) override {
    call(&Kernels::norm, ctx, x, args, sum, y, mean, rstd);
  }
  void norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                     NormGradients& out) override {
    call(&Kernels::norm_backward, ctx, x, args, mean, rstd, dy, out);
  }
  void batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) override {
    call(&Kernels::batch_statistics, ctx, x, mean, variance);
  }
  void batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y) override {
    call(&Kernels::batch_norm, ctx, x, args, y);
  }
  void batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                           bool accumulate, Tensor& dweight, Tensor& dbias) override {
    call(&Kernels::batch_norm_backward, ctx, x, args, of_batch, dy, dx, accumulate, dweight, dbias);
  }
  void embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y) override {
    call(&Kernels::embedding, ctx, ids, table, scale, y);
  }
  void embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                          bool accumulate) override {
    call(&Kernels::embedding_backward, ctx, ids, dy, scale, padding, dtable, accumulate);
  }
  void rope(Context& ctx, const Tensor& x, const RopeArgs& args, Tensor& y) override { call(&Kernels::rope, ctx, x, args, y); }
  void attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse,
                 Tensor& weights) override {
    call(&Kernels::attention, ctx, q, k, v, args, out, lse, weights);
  }
  void attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias,
                          Tensor& drelative_bias) override {
    call(&Kernels::attention_backward, ctx, q, k, v, args, out, lse, dout, dq, dk, dv, dbias, drelative_bias);
  }
  void count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                     Tensor& count) override {
    call(&Kernels::count_targets, ctx, op, targets, ignore, classes, count);
  }
  void cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing, bool want_gradient,
                     const Tensor& count, Tensor& losses) override {
    call(&Kernels::cross_entropy, ctx, logits, targets, ignore, smoothing, want_gradient, count, losses);
  }
  void total_loss(Context& ctx, const Tensor& losses, const Tensor& count, Tensor& loss) override {
    call(&Kernels::total_loss, ctx, losses, count, loss);
  }
  void patchify(Context& ctx, const Tensor& x, const PatchArgs& args, Tensor& y) override { call(&Kernels::patchify, ctx, x, args, y); }
  void patchify_backward(Context& ctx, const Tensor& dy, const PatchArgs& args, Tensor& dx) override {
    call(&Kernels::patchify_backward, ctx, dy, args, dx);
  }
  void begin_step(Context& ctx, Tensor& state) override { call(&Kernels::begin_step, ctx, state); }
  void add_loss(Context& ctx, const Tensor& loss, double weight, Tensor& state) override {
    call(&Kernels::add_loss, ctx, loss, weight, state);
  }
  void gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state) override {
    call(&Kernels::gradient_norm, ctx, gradients, state);
  }
  void adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state) override {
    call(&Kernels::adam, ctx, slots, args, state);
  }
  void blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state) override {
    call(&Kernels::blend, ctx, means, keep, xs, state);
  }
  void undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state) override {
    call(&Kernels::undo_if_skipped, ctx, before, xs, state);
  }
  double sum_of_squares(Context& ctx, std::span<const Tensor> tensors) override {
    ++waits;
    return call(&Kernels::sum_of_squares, ctx, tensors);
  }

 protected:
  const char* device_name() const override { return "guarded"; }

 private:
  template <class Result, class... Parameters, class... Arguments>
  Result call(Result (Kernels::*kernel)(Context&, Parameters...), Context& ctx, Arguments&&... arguments) {
    ++launches;
    const Opened opened;
    return (inner_.get()->*kernel)(ctx, std::forward<Arguments>(arguments)...);
  }

  std::shared_ptr<Kernels> inner_ = make_cpu_kernels();
};

}  // namespace

GuardedCounts guarded_counts() { return {.launches = launches, .waits = waits, .uploads = uploads}; }

std::shared_ptr<Kernels> make_guarded_kernels() { return std::make_shared<GuardedKernels>(); }

}  // namespace transformer
