#include "transformer/core/context.h"

#include <algorithm>
#include <utility>

#include "core/pass_allocator.h"
#include "transformer/core/parallel.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

// More threads than any machine has cores; starting far more fails, and not with an exception.
int checked_threads(int given) {
  constexpr int most = 1024;
  if (given < 0 || given > most) wrong_setting("Context", "threads", "is {}: expected 0 (all) to {}", given, most);
  return given > 0 ? given : hardware_threads();
}

class WithMemory final : public Recorded {
 public:
  WithMemory(std::unique_ptr<Recorded> work, std::shared_ptr<Allocator> memory) : memory_(std::move(memory)), work_(std::move(work)) {}
  void run() override { work_->run(); }

 private:
  std::shared_ptr<Allocator> memory_;
  std::unique_ptr<Recorded> work_;
};

}  // namespace

Context::Context(const ContextOptions& options)
    : device_(options.device), threads_(checked_threads(options.threads)), backend_(make_backend(options.device)),
      allocator_(std::make_shared<Allocator>(backend_)),
      communicator_(options.communicator ? backend_->communicator(options.communicator)
                                         : std::make_shared<Communicator>(Communicator::Place{})),
      random_(options.seed) {
  set_precision(options.precision);
}

void Context::set_threads(int threads) { threads_ = checked_threads(threads); }

void Context::set_precision(DType precision) {
  if (precision != DType::float32 && precision != DType::bfloat16)
    fail("Context", "precision must be float32 or bfloat16, got {}", precision);
  precision_ = precision;
}

MemoryStats Context::memory() const {
  MemoryStats sum = (outside_ ? outside_ : allocator_)->stats();
  if (!pass_allocator_) return sum;
  const MemoryStats passes = static_cast<const Allocator&>(*pass_allocator_).stats();
  // The peaks may be of different times: before the second pass all that was kept goes back.
  sum.peak_in_use = std::max(sum.peak_in_use, sum.in_use + passes.peak_in_use);
  sum.peak_reserved = std::max(sum.peak_reserved, sum.reserved + passes.peak_reserved);
  sum.in_use += passes.in_use, sum.reserved += passes.reserved;
  return sum;
}

Pass::Pass(Context& ctx) : ctx_(ctx.backend_->has_passes() && !ctx.outside_ ? &ctx : nullptr) {
  if (ctx_ == nullptr) return;
  // The first one is like other work: what it leaves behind, such as tables, does not lie among the memory of passes.
  if (ctx.passes_++ > 0) {
    if (!ctx.pass_allocator_) {
      ctx.allocator_->release_kept();
      ctx.pass_allocator_ = std::make_shared<PassAllocator>(ctx.backend_);
    }
    ctx.pass_allocator_->begin();
    ctx.outside_ = std::exchange(ctx.allocator_, ctx.pass_allocator_);
  } else {
    ctx.outside_ = ctx.allocator_;
  }
  ctx.backend_->begin_pass(ctx.random_.step());
}

void Pass::leave(bool wanted) {
  Context& ctx = *std::exchange(ctx_, nullptr);
  ctx.allocator_ = std::exchange(ctx.outside_, nullptr);
  ctx.backend_->end_pass(wanted);
}

void Pass::end() {
  if (ctx_ != nullptr) leave(true);
}

Pass::~Pass() {
  if (ctx_ != nullptr) leave(false);
}

std::unique_ptr<Recorded> record(Context& ctx, const std::function<void()>& work) {
  const auto memory = std::make_shared<Allocator>(ctx.backend_, false);
  struct Restore {
    Context& ctx;
    std::shared_ptr<Allocator> before;
    ~Restore() { ctx.allocator_ = std::move(before); }
  } restore{ctx, std::exchange(ctx.allocator_, memory)};
  return std::make_unique<WithMemory>(ctx.backend_->record(work), memory);
}

}  // namespace transformer
