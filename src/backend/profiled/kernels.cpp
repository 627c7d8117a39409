// The kernels of any device, timed call by call.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>

#include "backend/forwarding.h"
#include "backend/profiled/profile.h"
#include "core/shared/pool.h"

namespace transformer {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> profiling = false;
std::mutex profile_mutex;
std::map<std::string, KernelProfile> profile;

class ProfiledKernels final : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;

  std::byte* allocate(std::size_t bytes) override { return inner().allocate(bytes); }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override { inner().deallocate(data, bytes); }
  bool host_access() const override { return inner().host_access(); }
  void to_device(const void* from, std::byte* to, std::size_t bytes) override { inner().to_device(from, to, bytes); }
  void to_host(const std::byte* from, void* to, std::size_t bytes) override { inner().to_host(from, to, bytes); }
  std::unique_ptr<Arrival> to_host_later(const std::byte* from, void* to, std::size_t bytes) override {
    return inner().to_host_later(from, to, bytes);
  }
  std::string description() const override { return inner().description(); }
  void synchronize() override { inner().synchronize(); }
  int steps_ahead() const override { return inner().steps_ahead(); }
  void release_freed() override { inner().release_freed(); }
  bool has_passes() const override { return inner().has_passes(); }
  void begin_pass(std::uint32_t random_step) override { inner().begin_pass(random_step); }
  void end_pass(bool wanted) override { inner().end_pass(wanted); }

  void matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) override {
    const std::int64_t n = c.dim(-1), m = n == 0 ? 0 : c.numel() / n, k = args.transpose_a ? a.dim(-2) : a.dim(-1);
    detail_ = fmt::format(" {}x{}x{} {}{}{}", m, n, k, args.transpose_a ? 't' : 'n', args.transpose_b ? 't' : 'n',
                          args.accumulate ? " +" : "");
    flops_ = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    ForwardingKernels::matmul(ctx, a, b, c, args);
  }
  void linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) override {
    describe_linear(x.rows(), weight);
    ForwardingKernels::linear(ctx, x, weight, args, y, kept);
  }
  void linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept, const Tensor& dy,
                       LinearGradients& out) override {
    describe_linear(dy.rows(), weight);
    flops_ *= (out.dx.defined() ? 1.0 : 0.0) + (out.dweight.defined() ? 1.0 : 0.0);
    ForwardingKernels::linear_backward(ctx, x, weight, args, kept, dy, out);
  }
  void attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out, Tensor& lse,
                 Tensor& weights) override {
    flops_ = 2.0 * products_of(args);
    ForwardingKernels::attention(ctx, q, k, v, args, out, lse, weights);
  }
  void attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, const Tensor& out,
                          const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv, Tensor& dbias,
                          Tensor& drelative_bias) override {
    flops_ = 5.0 * products_of(args);
    ForwardingKernels::attention_backward(ctx, q, k, v, args, out, lse, dout, dq, dk, dv, dbias, drelative_bias);
  }

 protected:
  const char* device_name() const override { return "profiled"; }
  void before(const KernelCall& call) override {
    kernel_ = call.kernel + std::exchange(detail_, {});
    bytes_ = call.bytes;
    pool_ = parallel_stats();
    begun_ = Clock::now();
  }
  void after() noexcept override {
    inner().synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
    const ParallelStats pool = parallel_stats();
    const std::lock_guard lock(profile_mutex);
    KernelProfile& p = profile[kernel_];
    ++p.calls, p.seconds += seconds, p.bytes += bytes_, p.flops += std::exchange(flops_, 0.0);
    p.regions += pool.regions - pool_.regions, p.threads += pool.threads - pool_.threads;
  }

 private:
  void describe_linear(std::int64_t rows, const Tensor& weight) {
    detail_ = fmt::format(" {}x{}x{}", rows, weight.dim(0), weight.dim(1));
    flops_ = 2.0 * static_cast<double>(rows) * static_cast<double>(weight.numel());
  }
  // FLOPs of one product of queries and keys; a causal one needs half.
  static double products_of(const AttentionArgs& args) {
    double pairs = 0.0;
    for (std::int64_t s = 0; s < args.queries.count(); ++s)
      pairs += static_cast<double>(args.queries.length(s)) * static_cast<double>(args.keys.length(s));
    return 2.0 * pairs * static_cast<double>(args.heads * args.head_dim) * (args.causal ? 0.5 : 1.0);
  }

  std::string kernel_, detail_;
  double bytes_ = 0.0, flops_ = 0.0;
  ParallelStats pool_;
  Clock::time_point begun_;
};

}  // namespace

void profile_kernels(bool on) { profiling = on; }

std::vector<KernelProfile> take_profile() {
  const std::lock_guard lock(profile_mutex);
  std::vector<KernelProfile> out;
  for (auto& [name, p] : std::exchange(profile, {})) out.push_back(p), out.back().kernel = name;
  std::sort(out.begin(), out.end(), [](const KernelProfile& a, const KernelProfile& b) { return a.seconds > b.seconds; });
  return out;
}

std::shared_ptr<Kernels> profiled_if_asked(std::shared_ptr<Kernels> kernels) {
  return profiling ? std::make_shared<ProfiledKernels>(std::move(kernels)) : kernels;
}

}  // namespace transformer
