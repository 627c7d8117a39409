#pragma once
// How kernels are started: launch(ctx, "name", kernel, grid, block, shared bytes, arguments…). Libraries that start kernels by
// themselves: launch_with. There is no other way, so that every launch is counted, checked and named, and may be part of a pass.

#include "backend/cuda/kernels.h"
#include "backend/cuda/pass.h"
#include "backend/cuda/start.h"

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
  if (CudaPass* pass = device.pass())
    return pass->add_kernel<Parameters...>(name, kernel, grid, block, shared, static_cast<Parameters>(arguments)...);
  device.launching();
  start(name, kernel, grid, block, shared, device.stream(), static_cast<Parameters>(arguments)...);
  device.launched(name);
}

// Work of a library, which starts kernels of its own on a stream. `told_by`: values that tell it from other work of the same name.
template <class Run, class... Values>
void launch_with(Context& ctx, const char* name, Run run, const Values&... told_by) {
  CudaKernels& device = cuda(ctx);
  device.use();
  if (CudaPass* pass = device.pass()) {
    pass->note(name);
    (pass->note(told_by), ...);
    return pass->add(name, std::move(run));
  }
  device.launching();
  run(device.stream());
  device.launched(name);
}

constexpr std::int64_t blocks_of(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

}  // namespace transformer
