#pragma once
// Kernels that are started before the one in front of them has ended (programmatic dependent launch), within recorded work: there a chain
// of small ones mostly waits for launches. Such a kernel calls wait_for_last() before it reads what others write, or writes anything;
// before that it may fetch what nobody writes, such as weights. Older cards cannot do that: there it is started as any other.

#include "backend/cuda/launch.h"
#include "backend/cuda/ptx.cuh"

namespace transformer {

template <class... Parameters, class... Arguments>
void launch_early(Context& ctx, const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared,
                  const Arguments&... arguments) {
  CudaKernels& device = cuda(ctx);
  if (!device.recording() || !device.starts_early()) return launch(ctx, name, kernel, grid, block, shared, arguments...);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  device.use();
  if (shared > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), name);
  device.launching();
  check_cuda(start_early(name, kernel, grid, block, shared, device.stream(), static_cast<Parameters>(arguments)...), name);
  device.launched(name);
}

// The last kernel has ended.
__device__ inline void wait_for_last() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
// The next one may be started: what it fetches ahead will not delay this one's own reading any more.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// A warp brings bytes nearer that it will read.
__device__ inline void fetch_ahead(const void* from, std::int64_t bytes) {
#if __CUDA_ARCH__ >= 900
  for (std::int64_t at = std::int64_t{threadIdx.x % 32} * 128; at < bytes; at += 32 * 128)
    ptx::fetch_ahead(static_cast<const std::byte*>(from) + at);
#endif
}

}  // namespace transformer
