#pragma once
// How large the batches of a run are where the user has not said.
//
//   constexpr BatchSetting batches{ClassifyConfig::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};
//   data.max_tokens = batches.of(data.max_tokens, training);    // before the task is made
//   batches.say(data.max_tokens, task);                         // after it

#include <cstdint>

#include "transformer/train/trainer.h"

namespace transformer::cli {

struct BatchSetting {
  std::int64_t usual;
  const char *place, *unit, *flag;  // place: in the task's identity

  // Of a size that is 0, as the user has set none: that of the run that is resumed, where there is one; the usual one where the run
  // ends after a number of updates, or never; else 0, and the task fits it to its data.
  std::int64_t of(std::int64_t size, const TrainConfig& training) const;
  // Says that the task has taken a smaller one than usual.
  void say(std::int64_t asked, const Task& task) const;
};

}  // namespace transformer::cli
