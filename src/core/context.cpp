#include "transformer/core/context.h"

#include <utility>

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
      allocator_(std::make_shared<Allocator>(backend_)), random_(options.seed) {
  set_precision(options.precision);
}

void Context::set_precision(DType precision) {
  if (precision != DType::float32 && precision != DType::bfloat16)
    fail("Context", "precision must be float32 or bfloat16, got {}", precision);
  precision_ = precision;
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
