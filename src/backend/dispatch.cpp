// The one place that switches over devices.
#include "backend/kernels.h"

namespace transformer {

std::shared_ptr<Backend> make_backend(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu: return make_cpu_kernels();
    case Device::Kind::cuda: return make_cuda_kernels(device.index);
  }
  fail("Device", "unknown kind of device");
}

}  // namespace transformer
