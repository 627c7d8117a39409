#pragma once
// In the place of src/backend/cuda/start.h.

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace transformer {

#define SHARED_OF_LAUNCH(name, ...)                 \
  typedef __VA_ARGS__ name##_type; /* as aligned */ \
  auto* const name = emulator::shared_as(static_cast<name##_type*>(nullptr), alignof(name##_type))

template <class... Parameters>
void start(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
           std::type_identity_t<Parameters>... arguments) {
  emulator::start({name, reinterpret_cast<const void*>(kernel), grid, block, shared, false, [=] { kernel(arguments...); }}, stream);
}

template <class... Parameters>
cudaError_t start_early(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                        std::type_identity_t<Parameters>... arguments) {
  return emulator::start({name, reinterpret_cast<const void*>(kernel), grid, block, shared, true, [=] { kernel(arguments...); }}, stream);
}

}  // namespace transformer
