#pragma once

namespace transformer::bench {

// How much of the exchange of gradients is hidden behind backward: the base model's step with a communicator that takes its time.
void overlap_bench(int threads, int rounds);

}  // namespace transformer::bench
