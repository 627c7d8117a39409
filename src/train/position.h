#pragma once
// Where a run stands, and trainer.json, the file of a checkpoint that says so.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/train/task.h"

namespace transformer {

struct Position {
  std::int64_t step = 0, epoch = 0, batch = 0;   // updates and whole epochs done; the next batch of `epoch`
  std::int64_t adam_steps = 0, bad_updates = 0;  // updates that were not skipped; skipped ones in a row
  std::int64_t best_step = 0;                    // 0: none that was finite
  std::int64_t without_improvement = 0;          // validations since the best
  Metrics best = {};                             // what was measured there
  double seconds = 0.0;                          // of training
};

// A checkpoint's trainer.json: the position, and what a run that goes on is compared with.
struct SavedRun {
  Position position = {};
  nlohmann::json identity = {}, settings = {};
};
void write_run(const std::filesystem::path& file, const SavedRun& run);
SavedRun read_run(const std::filesystem::path& file);  // Error says what is missing or is not what was expected

// Every path at which the two differ, with both values: "architecture.d_model: 128 in the checkpoint, 256 now".
std::vector<std::string> differences(const nlohmann::json& before, const nlohmann::json& now, std::string_view there = "in the checkpoint",
                                     std::string_view here = "now");

}  // namespace transformer
