#pragma once
// How kernels are started: launch(ctx, "name", kernel, grid, block, shared bytes, arguments…). There is no other way, so that every
// launch is counted, checked and named.

#include "backend/cuda/kernels.h"

namespace transformer {

// An Error that says what was being done, and CUDA's own words.
void check_cuda(cudaError_t error, std::string_view what);

template <class... Parameters, class... Arguments>
void launch(Context& ctx, const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
            const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // nothing to do
  CudaKernels& device = cuda(ctx);
  device.use();
  if (shared > 48 * 1024)  // more than that must be asked for
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
  device.launching();
  kernel<<<grid, block, shared, device.stream()>>>(static_cast<Parameters>(arguments)...);
  device.launched(name);
}

constexpr std::int64_t blocks_of(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

}  // namespace transformer
