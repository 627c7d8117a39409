#pragma once
// Integers that came from the host are checked there, without waiting for the device.

#include "transformer/core/tensor.h"

namespace transformer {

inline bool known_on_host(const Tensor& t) {
  return t.defined() && t.storage()->known != nullptr && t.storage()->known_version == t.storage()->version;
}

}  // namespace transformer
