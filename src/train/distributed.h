#pragma once
// What a training by several processes adds to one by a single process: who computes which part of which batch, what they must agree
// about, and that they are the same program with the same data.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "train/weights.h"
#include "transformer/core/communicator.h"
#include "transformer/train/task.h"

namespace transformer {

// A part of a batch: what one process computes at a time. An update consists of the parts of update_freq batches, numbered as they follow
// each other; its random numbers are addressed by that number, so that they do not depend on who computes it.
struct MicroBatch {
  std::int64_t batch = 0;
  Share share = {};
  std::uint32_t number = 0;  // in its update
};

// Those of batches begin … end that belong to a process: of each update neighbours, about equally many for each.
std::vector<MicroBatch> micro_batches(std::int64_t begin, std::int64_t end, std::int64_t update_freq, std::int64_t parts,
                                      const Communicator::Place& place);
// The fewest parts of a batch with which all processes have equally much to do.
std::int64_t usual_parts(int processes, std::int64_t update_freq);

// Of an update, over all processes.
struct Totals {
  double targets = 0.0, tokens = 0.0;
  double stop = 0.0;  // processes that were asked to end
};
Totals total(Communicator& processes, Totals mine);

// Error when `mine` is not the same in all processes; it says where it differs from the first one's.
void compare(Communicator& processes, nlohmann::json mine);
// A hash of this program's files.
std::string program_fingerprint();

// What forward passes change beside the parameters, such as batch norm's running means: each micro-batch of an update begins with what
// was there before it, and the update ends with their mean, weighted by targets.
class StatisticsMean {
 public:
  StatisticsMean(Context& ctx, std::vector<Tensor> statistics, const Weights& before);
  void begin(Context& ctx);              // a micro-batch
  void add(Context& ctx, double share);  // what it has left
  void finish(Context& ctx);             // of all processes

 private:
  std::vector<Tensor> statistics_;
  const Weights& before_;
  Tensor sum_;  // [processes · each]: all of them one after the other
};

}  // namespace transformer
