#include "cli/train_batch.h"

#include <fmt/format.h>

#include "io/shared/json.h"

namespace transformer::cli {

std::int64_t BatchSetting::of(std::int64_t size, const TrainConfig& training) const {
  if (size != 0) return size;
  if (const auto resumed = latest_checkpoint(training.save_dir)) {
    const nlohmann::json saved = read_json(*resumed / "trainer.json");
    const nlohmann::json::json_pointer at(std::string("/identity") + place);
    if (saved.contains(at) && saved.at(at).is_number_integer()) return saved.at(at).get<std::int64_t>();
  }
  return training.max_update > 0 || training.max_epoch == 0 ? usual : 0;
}

void BatchSetting::say(std::int64_t asked, const Task& task) const {
  if (asked != 0) return;
  const std::int64_t taken = task.identity().at(nlohmann::json::json_pointer(place)).get<std::int64_t>();
  if (taken < usual)
    fmt::print(stderr, "batches of {} {} instead of {}, so that an epoch has more updates ({} sets it)\n", taken, unit, usual, flag);
}

}  // namespace transformer::cli
