#pragma once
// What a card did since it was last asked: for benchmarks and tests.

#include <string>
#include <vector>

#include "transformer/core/context.h"

namespace transformer {

struct CudaReport {
  struct Kernel {
    std::string name;
    std::int64_t calls = 0;
    double milliseconds = 0.0;
  };
  std::int64_t launches = 0, waits = 0;  // kernels, and waits of the host for the card
  std::int64_t graphs = 0;               // passes that were sent as a whole
  std::vector<Kernel> kernels = {};      // while they are timed; the longest first
};

void time_cuda_kernels(Context& ctx, bool on);  // events around every launch: for seeing where time goes, not how much it is in all
CudaReport take_cuda_report(Context& ctx);
std::string measured_cuda_products(Context& ctx);  // lines for cuda/algorithms.h: of the products that were asked for so far

}  // namespace transformer
