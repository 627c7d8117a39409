// The settings of a Trainer: what is wrong with them.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <tuple>

#include "train/checkpoint.h"
#include "transformer/core/setting_error.h"
#include "transformer/train/trainer.h"

namespace transformer {

namespace fs = std::filesystem;

void check(const TrainConfig& c, bool folder) {
  if (c.save_dir.empty()) wrong_setting("train", "save_dir", "is missing: expected a folder for the model and the state of training");
  if (c.max_epoch < 0 || c.max_update < 0)
    wrong_setting("train", c.max_epoch < 0 ? "max_epoch" : "max_update", "is {}: expected 0 or more", std::min(c.max_epoch, c.max_update));
  if (c.max_epoch == 0 && c.max_update == 0 && c.patience == 0)
    wrong_setting("train", "", "training would never end: give max_epoch, max_update or `patience`");
  if (c.update_freq < 1) wrong_setting("train", "update_freq", "is {}: expected 1 or more", c.update_freq);
  if (c.keep_last < 1)
    wrong_setting("train", "keep_last", "is {}: expected 1 or more, the state of training is resumed from it", c.keep_last);
  if (!(c.lr > 0.0F)) wrong_setting("train", "lr", "is {}: expected more than 0", c.lr);
  if (c.min_lr && !(*c.min_lr >= 0.0F && *c.min_lr <= c.lr))
    wrong_setting("train", "min_lr", "is {}: expected 0 to `lr`, {}", *c.min_lr, c.lr);
  if (c.warmup_updates && *c.warmup_updates < 0) wrong_setting("train", "warmup_updates", "is {}: expected 0 or more", *c.warmup_updates);
  if (!(c.clip_norm >= 0.0F)) wrong_setting("train", "clip_norm", "is {}: expected 0 or more", c.clip_norm);
  if (!(c.ema_decay >= 0.0F && c.ema_decay < 1.0F)) wrong_setting("train", "ema_decay", "is {}: expected a value in [0, 1)", c.ema_decay);
  for (const auto& [key, value, least] : {std::tuple{"average", c.average, 0},
                                          {"patience", c.patience, 0},
                                          {"log_interval", c.log_interval, 1},
                                          {"max_bad_updates", c.max_bad_updates, 1}})
    if (value < least) wrong_setting("train", key, "is {}: expected {} or more", value, least);
  if (c.lr_scheduler == Schedule::Kind::cosine && c.max_update == 0 && c.max_epoch == 0)
    wrong_setting("train", "lr_scheduler", "is cosine, which needs max_update or max_epoch, where it ends");
  if (c.batch_parts && (*c.batch_parts < 1 || *c.batch_parts > 4096))
    wrong_setting("train", "batch_parts", "is {}: expected 1 to 4096", *c.batch_parts);
  if (!folder) return;
  // Only making the folder tells whether it can be made. One that was not there goes again: there is nothing to keep yet.
  std::vector<fs::path> made;
  std::error_code error;
  for (fs::path at = fs::absolute(c.save_dir).lexically_normal(); !fs::exists(at, error) && at.has_relative_path(); at = at.parent_path())
    made.push_back(at);
  make_folder(c.save_dir);
  const bool writable = access(c.save_dir.c_str(), W_OK) == 0;
  const int why = errno;
  for (const fs::path& at : made) fs::remove(at, error);
  if (!writable) fail(c.save_dir, "cannot be written to: {}", std::generic_category().message(why));
}

std::int64_t warmup_of(const TrainConfig& c, std::int64_t total) {
  if (c.warmup_updates) return *c.warmup_updates;
  return c.lr_scheduler == Schedule::Kind::cosine && total > 0 ? std::min(c.usual_warmup, total / 10) : c.usual_warmup;
}

}  // namespace transformer
