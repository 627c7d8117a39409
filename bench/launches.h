#pragma once
// What a training step asks of a device: kernels, copies to it, waits for it. Counted on the guarded device, so that it can be compared
// on any machine.

namespace transformer::bench {

void launches_bench();

}  // namespace transformer::bench
