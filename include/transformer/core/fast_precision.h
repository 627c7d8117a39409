#pragma once
// What a device computes fastest with, for those who may choose. As with make_backend, src/backend knows.
//
//   Context ctx({.precision = fast_precision(Device::cpu())});

#include "transformer/core/device.h"
#include "transformer/core/dtype.h"

namespace transformer {

// bfloat16 where the device multiplies it faster than float32, otherwise float32.
DType fast_precision(Device device);

}  // namespace transformer
