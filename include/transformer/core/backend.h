#pragma once
// What core needs of a device: raw memory. Everything else a device can do (the kernels of the ops) is
// declared one room up, in src/backend/kernels.h.

#include <cstddef>
#include <memory>

#include "transformer/core/device.h"

namespace transformer {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::byte* allocate(std::size_t bytes) = 0;  // aligned to 64 bytes at least; throws Error when there is none
  virtual void deallocate(std::byte* data, std::size_t bytes) noexcept = 0;
};

// Defined by src/backend/dispatch.cpp, the one place that switches over devices.
std::shared_ptr<Backend> make_backend(Device device);

}  // namespace transformer
