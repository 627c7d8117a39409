#pragma once
// Pieces of work that are measured step by step, at any number of threads: what the profile and the scaling are made of.

#include <memory>
#include <string>
#include <vector>

#include "transformer/core/dtype.h"

namespace transformer::bench {

// One step after the other, each like the one before.
class Work {
 public:
  virtual ~Work() = default;
  virtual void step() = 0;
  virtual double per_step() const = 0;  // tokens, images …
};

// base, translate, prefill, decode (one sequence), decode16, or a task; Error lists them for another name.
std::unique_ptr<Work> make_work(const std::string& name, DType precision, int threads);

// PyTorch on the same work: what its script in bench/peers takes beside --threads, --dtypes and --modes; the name of the figure that it
// prints, units per second.
struct WorkPeer {
  std::string script, arguments, figure;
};
WorkPeer peer_of(const std::string& name, bool brief);  // brief: a few steps

// Seconds of a step: the median of as many as fit into so many seconds, at least three, after one that warms up.
double step_seconds(Work& work, double at_least);

struct ProfileOptions {
  std::string work = "base", precisions = "float32 bfloat16";
  int threads = 2, steps = 10, rows = 40;
};
// Time by kernel of a step: ./run bench profile WORK.
void profile_bench(const ProfileOptions& options);

struct ScalingOptions {
  std::string works = "base lm translate decode decode16 prefill", precisions = "float32 bfloat16";
  int threads = 2;          // the most; 1, 2, 4 … before it, or
  std::string counts = "";  // these alone
  bool brief = false;       // few steps of PyTorch
  double seconds = 0.5;     // of each measurement
  std::string json = "";
};
// Each work with 1, 2, 4 … threads, beside PyTorch: ./run bench scaling.
void scaling_bench(const ScalingOptions& options);

}  // namespace transformer::bench
