#include "transformer/core/context.h"

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

}  // namespace

Context::Context(const ContextOptions& options)
    : device_(options.device), threads_(checked_threads(options.threads)), backend_(make_backend(options.device)),
      allocator_(std::make_shared<Allocator>(backend_)),
      communicator_(options.communicator ? backend_->communicator(options.communicator)
                                         : std::make_shared<Communicator>(Communicator::Place{})),
      random_(options.seed) {
  set_precision(options.precision);
}

void Context::set_precision(DType precision) {
  if (precision != DType::float32 && precision != DType::bfloat16)
    fail("Context", "precision must be float32 or bfloat16, got {}", precision);
  precision_ = precision;
}

}  // namespace transformer
