#pragma once
// The tasks of `transformer_bench task`: a model of the recipes' size each, and samples to train it on.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transformer/train/model_task.h"

namespace transformer::bench {

struct TaskOptions {
  std::string task;  // lm, mlm, classify, image, forecast
  std::string text;  // lm: a file; empty: made text
  int updates = 0;   // of a round; 0: what suits the task
  int rounds = 3, threads = 2;
  bool whole = false;  // one training of so many updates from the first to the last, instead of rounds
  std::string peer_modes = "eager compile";
  std::string json;  // where to write the figures
};

struct BenchTask {
  std::string_view title;  // "GPT-2, 4 layers …"
  std::string_view units;  // "tokens"
  int updates = 0;         // of a round, where the options name none
};
BenchTask describe_task(const std::string& task);  // Error that names the tasks where it is none

std::unique_ptr<ModelTask> make_task(Context& ctx, const TaskOptions& options);

// The batches as bench/peers/torch_task.py reads them: "0.input_ids", "0.labels", "1.input_ids" …
void write_batches(const std::vector<Batch>& batches, const std::filesystem::path& path);

}  // namespace transformer::bench
