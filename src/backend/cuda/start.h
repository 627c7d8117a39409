#pragma once
// What C++ has no words for: starting a kernel, and the shared memory whose size is said when it starts. No other file has them, so that
// tests/emulator can put its own in this one's place and run the backend without a GPU.

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace transformer {

// SHARED_OF_LAUNCH(name, type): within a kernel, an array of all the shared memory that it was started with.
#define SHARED_OF_LAUNCH(name, ...) extern __shared__ __VA_ARGS__ name[]

// `name` is for messages.
template <class... Parameters>
void start(const char* /*name*/, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
           std::type_identity_t<Parameters>... arguments) {
  kernel<<<grid, block, shared, stream>>>(arguments...);
}

// The same, but the kernel may begin before the one in front of it has ended, see early.cuh.
template <class... Parameters>
cudaError_t start_early(const char* /*name*/, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream,
                        std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared, config.stream = stream;
  config.attrs = &early, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace transformer
