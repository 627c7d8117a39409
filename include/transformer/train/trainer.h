#pragma once
// One loop for every task.
//
//   Context ctx({.seed = config.seed});
//   auto task = …;                       // a Task: translation, language model, …
//   Trainer trainer(ctx, task, config);
//   trainer.on_step([](const TrainStep& s) { fmt::print("{} {}\n", s.step, s.loss); });
//   trainer.run();                       // goes on where an earlier run in the same folder stopped
//
// The folder holds, at any moment:
//   config.json, model.safetensors, tokenizer   the best model so far, ready to use
//   average/                                    the average of the last checkpoints, when asked for
//   checkpoints/step-N/                         the state of training: model, optimizer.safetensors, trainer.json
//   metrics.jsonl, metrics.csv, events.out…     what was measured

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transformer/io/config.h"
#include "transformer/train/optimizer.h"
#include "transformer/train/schedule.h"
#include "transformer/train/task.h"

namespace transformer {

inline EnumNames<Schedule::Kind> names(Schedule::Kind) {
  return {{Schedule::Kind::inverse_sqrt, "inverse_sqrt"}, {Schedule::Kind::cosine, "cosine"}, {Schedule::Kind::constant, "constant"}};
}

// What several processes share out, see docs/scale.md.
enum class Shard : std::uint8_t {
  optimizer,  // its state
  weights,    // also weights and gradients of the layers
};
inline EnumNames<Shard> names(Shard) { return {{Shard::optimizer, "optimizer"}, {Shard::weights, "weights"}}; }

struct TrainConfig {
  std::string save_dir;
  std::int64_t max_epoch = 0;
  std::int64_t max_update = 0;
  std::int64_t update_freq = 1;
  float lr = 5e-4F;
  Schedule::Kind lr_scheduler = Schedule::Kind::inverse_sqrt;
  std::optional<std::int64_t> warmup_updates = {};
  std::int64_t usual_warmup = 4000;  // where warmup_updates is not set; see warmup_of
  std::optional<float> min_lr = {};
  float usual_floor = 0.0F;  // share of lr that is min_lr where that is not set
  float adam_beta1 = 0.9F, adam_beta2 = 0.98F, adam_eps = 1e-9F;
  float weight_decay = 0.0F;
  float clip_norm = 1.0F;
  std::int64_t validate_interval_updates = 0;
  std::int64_t save_interval_updates = 0;
  std::string best_metric = "loss";
  std::int64_t patience = 0;
  std::int64_t keep_last = 1;
  std::int64_t average = 0;
  float ema_decay = 0.0F;
  std::int64_t max_bad_updates = 10;
  std::optional<std::int64_t> batch_parts = {};
  Shard shard = Shard::optimizer;
  std::int64_t log_interval = 50;
  bool quiet = false;

  static void visit(auto& self, auto&& field) {
    field("save_dir", self.save_dir, "folder of the model and of the state of training; an earlier run there is resumed");
    field("max_epoch", self.max_epoch, "stop after this many passes over the data (0: no limit)");
    field("max_update", self.max_update, "stop after this many updates (0: no limit)");
    field("update_freq", self.update_freq, "batches whose gradients are added up for one update");
    field("lr", self.lr, "peak learning rate");
    field("lr_scheduler", self.lr_scheduler, "how the learning rate falls after the warm-up");
    field("warmup_updates", self.warmup_updates, "updates over which the learning rate rises (none: the usual number of the task)");
    field("min_lr", self.min_lr, "where the cosine schedule ends (none: the usual share of lr)");
    field("adam_beta1", self.adam_beta1, "Adam's first decay rate");
    field("adam_beta2", self.adam_beta2, "Adam's second decay rate");
    field("adam_eps", self.adam_eps, "Adam's epsilon");
    field("weight_decay", self.weight_decay, "decoupled weight decay of matrices");
    field("clip_norm", self.clip_norm, "largest norm of the gradient (0: no clipping)");
    field("validate_interval_updates", self.validate_interval_updates, "updates between two validations (0: one each epoch)");
    field("save_interval_updates", self.save_interval_updates, "updates between two checkpoints (0: one each epoch)");
    field("best_metric", self.best_metric, "which validation metric decides about the best model: loss, or one the task offers");
    field("patience", self.patience, "stop after this many validations without a better one (0: never)");
    field("keep_last", self.keep_last, "checkpoints that are kept");
    field("average", self.average, "average this many last checkpoints when training ends (0: none)");
    field("ema_decay", self.ema_decay, "validate and save a moving average of the weights with this decay (0: none)");
    field("max_bad_updates", self.max_bad_updates, "stop after this many updates in a row whose gradient is not finite");
    field("batch_parts", self.batch_parts,
          "parts that a batch is cut into, for several processes; dropout depends on it, not on how many processes there are (none: as "
          "many as the processes need)");
    field("shard", self.shard,
          "several processes: what each keeps a part of, the optimizer's state, or the layers' weights and gradients too, for models that "
          "are too large for one");
    field("log_interval", self.log_interval, "updates between two lines of metrics");
    field("quiet", self.quiet, "no progress display");
  }
};

// Updates of the warm-up, of so many in all (0: not known). What the user has set stays; the usual one is no more than a tenth of a
// schedule that knows its end.
std::int64_t warmup_of(const TrainConfig& config, std::int64_t total);

// How a run ended.
struct TrainResult {
  enum class End { finished, no_improvement, interrupted };
  End end = End::finished;
  std::int64_t begun_at = 0;         // the step that this run went on from
  std::int64_t step = 0, epoch = 0;  // updates and whole epochs done
  std::int64_t best_step = 0;        // 0: never validated
  Metrics best = {};                 // what the best validation measured
  Metrics average = {};              // what the averaged model measured, when asked for
};

// An update that was just done.
struct TrainStep {
  std::int64_t step = 0, epoch = 0;  // both count from 1
  double loss = 0.0, lr = 0.0, gradient_norm = 0.0;
  std::int64_t tokens = 0;  // of its batches
  bool skipped = false;     // the loss or the gradient was not finite: the weights are as before
};

// A validation that was just done.
struct TrainValidation {
  std::int64_t step = 0, epoch = 0;  // updates done, and the epoch of the last of them, from 1
  Metrics metrics = {};
  bool best = false;  // the best so far: this model will be saved
};

// Error when settings make no sense, or when the folder cannot be made or written to; nothing is made yet. Trainer does this too; do it
// first where making the task takes long.
void check(const TrainConfig& config, bool folder = true);  // false: all but the folder

// The newest complete checkpoint of an earlier run in this folder: what a Trainer there goes on from.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& folder);

class Trainer {
 public:
  // `stop`, when given, is looked at after every update: once true, the state is saved and run() returns.
  Trainer(Context& ctx, Task& task, const TrainConfig& config, const std::atomic<bool>* stop = nullptr);
  ~Trainer();

  // What is called after every update and after every validation, on the thread of run(). An exception ends the run as it is.
  void on_step(std::function<void(const TrainStep&)> callback);
  void on_validation(std::function<void(const TrainValidation&)> callback);

  TrainResult run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace transformer
