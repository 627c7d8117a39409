#include "cli/compute.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "cli/processes.h"
#include "transformer/core/backend.h"
#include "transformer/core/parallel.h"
#include "transformer/processes/processes.h"

namespace transformer::cli {

ContextOptions ComputeConfig::context(std::uint64_t seed) const {
  const int most = std::max(static_cast<int>(std::thread::hardware_concurrency()), hardware_threads());
  if (threads > most)
    fmt::print(stderr, "transformer: note: --threads is {}, but the machine has {}: more would wait for each other; {} are used\n", threads,
               most, most);
  Device where = device.empty() ? Device::usual() : Device::parse(device);
  int count = std::min(threads, most);
  if (const auto together = processes()) {  // neighbours share the machine, and take its cards in turn
    const int fair = fair_threads(*together);
    if (count == 0) count = fair;
    const char* usual = std::getenv("TRANSFORMER_DEVICE");
    const std::string named = device.empty() && usual != nullptr ? usual : device;
    if (where.kind == Device::Kind::cuda && named.find(':') == std::string::npos) where = card_in_turn(together->place().local_rank);
  }
  return {.device = where,
          .threads = count,
          .seed = seed,
          .precision = precision == Precision::float32 ? DType::float32 : DType::bfloat16,
          .communicator = processes()};
}

}  // namespace transformer::cli
