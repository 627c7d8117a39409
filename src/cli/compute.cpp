#include "cli/compute.h"

#include <algorithm>
#include <thread>

#include "transformer/core/parallel.h"

namespace transformer::cli {

ContextOptions ComputeConfig::context(std::uint64_t seed) const {
  const int most = std::max(static_cast<int>(std::thread::hardware_concurrency()), hardware_threads());
  if (threads > most)
    fmt::print(stderr, "transformer: note: --threads is {}, but the machine has {}: more would wait for each other; {} are used\n", threads,
               most, most);
  return {.device = device.empty() ? Device::usual() : Device::parse(device),
          .threads = std::min(threads, most),
          .seed = seed,
          .precision = precision == Precision::float32 ? DType::float32 : DType::bfloat16};
}

}  // namespace transformer::cli
