#pragma once
// How an update of a training goes, in the device's memory: kernels write and read it, so that the host need not wait for the norm
// of the gradients before the weights are updated. The host copies it back when it wants to know.

#include <cstdint>

namespace transformer {

struct StepState {
  double loss = 0.0;              // Σ weight · loss over the batches of the update
  double norm = 0.0;              // of all gradients together, before clipping
  std::int64_t finite = 1;        // are loss and norm? If not, the update is skipped
  float lr = 0.0F;                // the learning rate
  std::uint32_t random_step = 0;  // of the addresses of its random numbers, see RandomStream
  std::int64_t updates = 0;       // Adam's t: updates that were not skipped, since the training began. Last: all else is new in a step
};

}  // namespace transformer
