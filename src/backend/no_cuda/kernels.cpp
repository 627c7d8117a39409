// Linked where there is no CUDA, so that nothing above backend/ needs to know.
#include "backend/kernels.h"
#include "backend/cuda_report.h"

namespace transformer {

std::shared_ptr<Kernels> make_cuda_kernels(int device) {
  fail("Device", "cuda:{} asked for, but this build has no CUDA: build with -DTRANSFORMER_CUDA=ON, or use the device cpu", device);
}

int cuda_devices() { return 0; }

void time_cuda_kernels(Context&, bool) {}
CudaReport take_cuda_report(Context&) { return {}; }
std::string measured_cuda_products(Context&) { return {}; }

}  // namespace transformer
