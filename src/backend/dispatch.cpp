// The one place that switches over devices.
#include <algorithm>

#include "backend/cpu/matmul_cache.h"
#include "backend/kernels.h"
#include "backend/profiled/profile.h"
#include "transformer/core/fast_precision.h"

namespace transformer {

std::shared_ptr<Backend> make_backend(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu: return profiled_if_asked(make_cpu_kernels());
    case Device::Kind::cuda: return profiled_if_asked(make_cuda_kernels(device.index));
    case Device::Kind::guarded: return profiled_if_asked(make_guarded_kernels());
  }
  fail("Device", "unknown kind of device");
}

Device card_in_turn(int process) { return Device::cuda(process % std::max(1, cuda_devices())); }
Device fastest_device() { return cuda_devices() > 0 ? Device::cuda() : Device::cpu(); }

DType fast_precision(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
    case Device::Kind::guarded: return processor_multiplies_bfloat16() ? DType::bfloat16 : DType::float32;
    case Device::Kind::cuda: return DType::bfloat16;
  }
  fail("Device", "unknown kind of device");
}

}  // namespace transformer
