#pragma once
// Training of any task as Trainer does it, timed: batches are made on a background thread while the model computes.

#include "task_data.h"
#include "transformer/train/optimizer.h"

namespace transformer::bench {

class TaskStep {
 public:
  TaskStep(Context& ctx, Task& task, const AdamOptions& options);
  float run(const Batch& batch, float lr);                 // one update; the loss
  double gradient_norm() const { return gradient_norm_; }  // of the last update, before it was clipped

 private:
  Context& ctx_;
  Task& task_;
  Adam adam_;
  std::uint32_t step_ = 0;
  double gradient_norm_ = 0.0;
};

// Writes the weights that both sides begin with and the batches of a round ("0.input_ids", "0.labels", "1.input_ids" …) into a folder:
// what bench/peers/torch_task.py is then called with, beside --threads, --modes and --dtypes.
std::string peer_arguments(const TaskOptions& options, const std::string& data, const std::filesystem::path& folder);

// Ours and PyTorch's, printed side by side.
void task_bench(const TaskOptions& options);

}  // namespace transformer::bench
