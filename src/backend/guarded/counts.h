#pragma once
// What the guarded device was asked to do since the program began.

#include <cstdint>

namespace transformer {

struct GuardedCounts {
  std::int64_t launches = 0;  // kernels
  std::int64_t waits = 0;     // of the host for the device
  std::int64_t uploads = 0;   // copies to the device
};

GuardedCounts guarded_counts();

}  // namespace transformer
