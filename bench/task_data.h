#pragma once
// The tasks of `transformer_bench task`: those of `transformer train`, in the sizes of the recipes.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "transformer/train/model_task.h"

namespace transformer::bench {

struct TaskOptions {
  std::string task;          // lm, mlm, classify, image, forecast
  std::string data = "";     // a file, or for images a folder; empty: made up
  std::int64_t updates = 0;  // of a round; 0: what suits the task
  int rounds = 3, threads = 2;
  bool whole = false;  // one training from its first update to the last, instead of rounds
  std::string precisions = "float32 bfloat16", peer_modes = "eager compile";
  std::string json = "";  // where to write the figures
};

struct TaskKind {
  std::string_view name, title;  // "lm", "GPT-2, 4 layers …"
  std::string_view units;        // what is counted: "tokens"
  std::int64_t updates = 0;      // of a round, where the options name none
  std::string_view data;         // name of the file or folder
  void (*make_data)(const std::filesystem::path& data);
};
const TaskKind& kind_of(const std::string& task);  // Error lists those there are

using Padded = std::function<HostTensors(std::int64_t i)>;  // batch i as bench/peers/torch_task.py takes it

// A task with the batches of its first epoch planned, in a context of its own.
struct BenchTask {
  Context ctx;
  std::unique_ptr<ModelTask> task;
  std::int64_t batches = 0;
  Padded padded;

  BenchTask(const TaskOptions& options, const std::string& data, DType precision, bool dropout = true);
};

std::unique_ptr<ModelTask> language_model(Context& ctx, const std::string& text, Padded& padded);

}  // namespace transformer::bench
