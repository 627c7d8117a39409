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

// Ours and PyTorch's, printed side by side.
void task_bench(const TaskOptions& options);

}  // namespace transformer::bench
