#include "transformer/core/context.h"

#include "transformer/core/parallel.h"

namespace transformer {

Context::Context(const ContextOptions& options)
    : device_(options.device), threads_(options.threads > 0 ? options.threads : hardware_threads()), backend_(make_backend(options.device)),
      allocator_(std::make_shared<Allocator>(backend_)), random_(options.seed) {
  if (options.threads < 0) fail("Context", "threads must be 0 (all) or more, got {}", options.threads);
  set_precision(options.precision);
}

void Context::set_precision(DType precision) {
  if (precision != DType::float32 && precision != DType::bfloat16)
    fail("Context", "precision must be float32 or bfloat16, got {}", precision);
  precision_ = precision;
}

}  // namespace transformer
