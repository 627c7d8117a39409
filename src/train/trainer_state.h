#pragma once
// What a training is made of while it runs: trainer.cpp has the loop, trainer_folder.cpp what is written and read again.

#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "train/checkpoint.h"
#include "train/distributed.h"
#include "train/layer_pieces.h"
#include "train/position.h"
#include "train/weights.h"
#include "transformer/io/safetensors.h"
#include "transformer/train/metrics_log.h"
#include "transformer/train/progress.h"
#include "transformer/train/trainer.h"

namespace transformer {

// An update that the device was asked for.
struct Launched {
  std::int64_t step = 0, epoch = 0, tokens = 0;
  double targets = 0.0;
  float lr = 0.0F;
  StepState result;  // when it has arrived
  std::unique_ptr<Arrival> arrival;
};

struct Trainer::State : Position {
  Context& ctx;
  Task& task;
  TrainConfig config;
  const std::atomic<bool>* stop;
  std::filesystem::path folder;
  std::optional<FolderLock> lock;
  Checkpoints checkpoints;
  std::vector<NamedParameter> parameters, statistics;  // the task's
  std::shared_ptr<Communicator> direct;                // as it is without layers in pieces, of which others may have none
  Adam adam;
  Communicator& processes;  // all do the same; the first alone writes
  Weights averaged;         // all that averages are of: parameters and statistics; of layers in pieces, this process's, as one
  Schedule schedule;
  Average ema;  // empty: none
  std::optional<MetricsLog> log;
  Progress progress;

  std::int64_t parts = 1;  // of a batch, see MicroBatch
  bool stopped = false;    // all have agreed to end

  std::int64_t validated_at = -1, saved_at = -1;
  std::int64_t total_steps = 0;  // as far as it can be told
  double seconds_before = 0.0;   // of the runs that this one goes on from
  ProgressState shown;           // of the last update

  std::deque<std::unique_ptr<Launched>> launched;  // updates whose end is not known yet

  // Since the last line of metrics, which was written at `since`, a time that what is not training puts off.
  double loss_sum = 0.0, targets = 0.0, tokens = 0.0, gradient_norm = 0.0, since = 0.0;

  State(Context& c, Task& t, const TrainConfig& settings, const std::atomic<bool>* stop_flag)
      : ctx(c), task(t), config(settings), stop(stop_flag),
        folder((check(settings, c.communicator().first()),
                c.communicator().first() ? make_folder(settings.save_dir) : std::filesystem::path(settings.save_dir))),
        checkpoints(folder), parameters(t.parameters()), statistics(t.statistics()), direct(c.shared_communicator()),
        adam(c, parameters,
             {.beta1 = settings.adam_beta1,
              .beta2 = settings.adam_beta2,
              .eps = settings.adam_eps,
              .weight_decay = settings.weight_decay,
              .shard_weights = settings.shard == Shard::weights},
             decay_matrices),
        processes(c.communicator()), schedule{.kind = settings.lr_scheduler,
                                              .peak = settings.lr,
                                              .warmup = warmup_of(settings, settings.max_update),
                                              .total = settings.max_update,
                                              .floor = settings.min_lr.value_or(settings.usual_floor * settings.lr)},
        progress(stderr,
                 {.mode = settings.quiet || !processes.first() ? ProgressOptions::Mode::quiet : ProgressOptions::Mode::automatic,
                  .log_interval = settings.log_interval}) {
    if (processes.first()) lock.emplace(folder);
    for (const NamedParameter& p : all_weights())
      if (!in_pieces(p)) averaged.push_back(p.parameter->tensor);
    if (adam.pieces() != nullptr) averaged.push_back(adam.pieces()->block(LayerPieces::weights));
  }
  std::vector<NamedParameter> all_weights() const {
    std::vector<NamedParameter> out = parameters;
    out.insert(out.end(), statistics.begin(), statistics.end());
    return out;
  }
  bool in_pieces(const NamedParameter& p) const { return adam.pieces() != nullptr && adam.pieces()->has(p.parameter->tensor); }

  std::function<void(const TrainStep&)> on_step;
  std::function<void(const TrainValidation&)> on_validation;

  void resume();
  void save();
  void refuse_others_files() const;
  void save_best();
  void save_model(const std::filesystem::path& at);
  std::vector<TensorToSave> optimizer_tensors(const std::vector<Adam::State>& states) const;
  void begin_average();
  void keep_checkpoints() const;
  void plan_schedule(std::int64_t batches);
  void check_task();
  void validate();
  Metrics measure();
  bool is_sound(const Metrics& metrics) const;
  bool weights_are_finite() const;
  void check_end() const;
  nlohmann::json identity() const;
  nlohmann::json settings() const;
  void train_epoch(std::int64_t batches);
  struct Prepared {
    Batch batch;
    std::uint32_t number;  // of the micro-batch in its update
  };
  void update(std::vector<Prepared>& mine, const Totals& all, std::uint32_t micro_batches);
  template <class Compute>
  void sum_halves(std::span<const Prepared> mine, std::uint32_t begin, std::uint32_t end, Compute&& compute);
  void join();
  void decide_parts(std::int64_t saved);
  void settle(int ahead);
  void ended(const Launched& update);
  void report(const Launched& update);
  void average(TrainResult& result);
  double seconds() const { return seconds_before + progress.elapsed(); }
  SavedRun saved_run() const;
  bool interrupted() const { return stop != nullptr && stop->load(); }
  bool out_of_patience() const { return config.patience > 0 && without_improvement >= config.patience; }
  bool done() const {
    return (config.max_update > 0 && step >= config.max_update) || (config.max_epoch > 0 && epoch >= config.max_epoch) || out_of_patience();
  }
};

}  // namespace transformer
