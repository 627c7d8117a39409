// The CPU's kernels on memory that the host cannot touch: a device for tests. What would read a GPU's memory through a pointer
// faults here, or is an Error, on any machine; launches and waits are counted. TRANSFORMER_DEVICE=guarded runs anything on it.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/forwarding.h"
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

void open_memory() { GuardedMemory::instance().open(), ++opened_here; }
void close_memory() noexcept { --opened_here, GuardedMemory::instance().close(); }

class Opened {
 public:
  Opened() { open_memory(); }
  ~Opened() { close_memory(); }
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

thread_local ForwardingKernels::Calls* recorded_here = nullptr;

// The kernels' calls as they were, with what they were given: nothing else of the work happens again.
class KeptCalls final : public Recorded {
 public:
  explicit KeptCalls(ForwardingKernels::Calls calls) : calls_(std::move(calls)) {}
  void run() override {
    for (const auto& call : calls_) call();
  }

 private:
  ForwardingKernels::Calls calls_;
};

class GuardedKernels final : public ForwardingKernels {
 public:
  GuardedKernels() : ForwardingKernels(make_cpu_kernels()) {}
  std::byte* allocate(std::size_t bytes) override { return GuardedMemory::instance().allocate(bytes); }
  void deallocate(std::byte* data, std::size_t) noexcept override { GuardedMemory::instance().deallocate(data); }
  bool host_access() const override { return opened_here > 0 || parallel_seat() > 0; }  // a seat: a kernel's own threads
  void to_device(const void* from, std::byte* to, std::size_t bytes) override {
    ++uploads;
    const Opened opened;
    std::memcpy(to, from, bytes);
  }
  void to_host(const std::byte* from, void* to, std::size_t bytes) override {
    if (recorded_here != nullptr) fail("copy to the host", "work that is being recorded has not been done: there is nothing to copy");
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
  bool has_passes() const override { return true; }  // for their memory's sake
  bool records() const override { return true; }
  std::unique_ptr<Recorded> record(const std::function<void()>& work) override {
    Calls calls;
    struct Recording {
      explicit Recording(Calls& to) { recorded_here = &to; }
      ~Recording() { recorded_here = nullptr; }
    };
    const Recording recording(calls);
    work();
    return std::make_unique<KeptCalls>(std::move(calls));
  }

  // Coarse kernels are one launch here, however the CPU composes them.
  // More columns than classes, as GPUs want them.
  Tensor logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) override {
    return Kernels::logits_room(ctx, rows, (classes + 3) / 4 * 4, dtype);
  }
  void linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) override {
    call("linear", &Kernels::linear, ctx, x, weight, args, y, kept);
  }
  void linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept, const Tensor& dy,
                       LinearGradients& out) override {
    call("linear_backward", &Kernels::linear_backward, ctx, x, weight, args, kept, dy, out);
  }
  void add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd, const Tensor& dy,
                         NormGradients& out, Tensor& dsub) override {
    call("add_norm_backward", &Kernels::add_norm_backward, ctx, sum, args, mean, rstd, dy, out, dsub);
  }

  double sum_of_squares(Context& ctx, std::span<const Tensor> tensors) override {
    ++waits;
    return ForwardingKernels::sum_of_squares(ctx, tensors);
  }

 protected:
  const char* device_name() const override { return "guarded"; }
  void before(const KernelCall&) override {
    ++launches;
    open_memory();
  }
  void after() noexcept override { close_memory(); }
  Calls* keeps() const override { return recorded_here; }
};

}  // namespace

GuardedCounts guarded_counts() { return {.launches = launches, .waits = waits, .uploads = uploads}; }

std::shared_ptr<Kernels> make_guarded_kernels() { return std::make_shared<GuardedKernels>(); }

}  // namespace transformer
