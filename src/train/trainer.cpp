#include "transformer/train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/kernels.h"
#include "io/shared/prefetch.h"
#include "train/checkpoint.h"
#include "train/position.h"
#include "train/weights.h"
#include "transformer/core/setting_error.h"
#include "transformer/io/safetensors.h"
#include "transformer/ops/copy.h"
#include "transformer/train/metrics_log.h"
#include "transformer/train/progress.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<double> value_of(const Metrics& metrics, std::string_view name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  return std::nullopt;
}

// Losses and perplexities should fall; scores rise.
bool smaller_is_better(std::string_view metric) {
  return metric == "loss" || metric == "perplexity" || metric == "mse" || metric == "mae" || metric == "pinball" ||
      metric == "bits_per_byte";
}

}  // namespace

struct Trainer::State : Position {
  Context& ctx;
  Task& task;
  TrainConfig config;
  const std::atomic<bool>* stop;
  fs::path folder;
  FolderLock lock;
  Checkpoints checkpoints;
  std::vector<NamedParameter> parameters;
  std::vector<NamedParameter> statistics, averaged;  // the task's; all that averages are of: parameters and statistics
  Adam adam;
  Schedule schedule;
  Weights ema;  // empty: none
  std::optional<MetricsLog> log;
  Progress progress;

  std::int64_t validated_at = -1, saved_at = -1;
  std::int64_t total_steps = 0;  // as far as it can be told
  double seconds_before = 0.0;   // of the runs that this one goes on from
  ProgressState shown;           // of the last update

  // Since the last line of metrics, which was written at `since`, a time that what is not training puts off.
  double loss_sum = 0.0, targets = 0.0, tokens = 0.0, gradient_norm = 0.0, since = 0.0;

  State(Context& c, Task& t, const TrainConfig& settings, const std::atomic<bool>* stop_flag)
      : ctx(c), task(t), config(settings), stop(stop_flag), folder((check(settings), make_folder(settings.save_dir))), lock(folder),
        checkpoints(folder), parameters(t.parameters()), statistics(t.statistics()),
        adam(c, parameters,
             {.beta1 = settings.adam_beta1, .beta2 = settings.adam_beta2, .eps = settings.adam_eps, .weight_decay = settings.weight_decay},
             decay_matrices),
        schedule{.kind = settings.lr_scheduler,
                 .peak = settings.lr,
                 .warmup = warmup_of(settings, settings.max_update),
                 .total = settings.max_update,
                 .floor = settings.min_lr.value_or(settings.usual_floor * settings.lr)},
        progress(stderr,
                 {.mode = settings.quiet ? ProgressOptions::Mode::quiet : ProgressOptions::Mode::automatic,
                  .log_interval = settings.log_interval}) {
    averaged = parameters;
    averaged.insert(averaged.end(), statistics.begin(), statistics.end());
  }

  std::function<void(const TrainStep&)> on_step;
  std::function<void(const TrainValidation&)> on_validation;

  void resume();
  void save();
  void save_best();
  void plan_schedule(std::int64_t batches);
  void check_task();
  void validate();
  Metrics measure();
  bool is_sound(const Metrics& metrics) const;
  bool weights_are_finite() const;
  void check_end() const;
  json identity() const;
  json settings() const;
  void train_epoch(std::int64_t batches);
  void update(std::vector<Batch>& batches);
  void report();
  void average(TrainResult& result);
  double seconds() const { return seconds_before + progress.elapsed(); }
  SavedRun saved_run() const;
  bool interrupted() const { return stop != nullptr && stop->load(); }
  bool out_of_patience() const { return config.patience > 0 && without_improvement >= config.patience; }
  bool done() const {
    return (config.max_update > 0 && step >= config.max_update) || (config.max_epoch > 0 && epoch >= config.max_epoch) || out_of_patience();
  }
};

// One update from the gradients of several batches, each weighted by its share of the targets.
void Trainer::State::update(std::vector<Batch>& batches) {
  ++step;
  ctx.random().begin_step(static_cast<std::uint32_t>(step));
  double all = 0.0, value = 0.0;
  std::int64_t read = 0;
  const Weights statistics_before = copy_of(ctx, statistics);
  for (const Batch& b : batches) all += static_cast<double>(b.targets);
  for (const Batch& b : batches) {
    const auto share = static_cast<float>(static_cast<double>(b.targets) / all);
    const Tensor loss = task.loss(ctx, b);
    value += static_cast<double>(loss.item()) * static_cast<double>(b.targets);
    tokens += static_cast<double>(b.tokens);
    read += b.tokens;
    backward(ctx, loss, batches.size() == 1 ? Tensor() : Tensor::full(ctx, loss.shape(), share));
  }
  const bool finite_loss = std::isfinite(value);
  const double norm = finite_loss ? adam.step(ctx, schedule(step), config.clip_norm) : 0.0;  // which changes nothing if it is not finite
  adam.zero_gradients();
  const bool skipped = !finite_loss || !std::isfinite(norm);
  if (on_step)
    on_step({.step = step,
             .epoch = epoch + 1,
             .loss = value / all,
             .lr = schedule(step),
             .gradient_norm = norm,
             .tokens = read,
             .skipped = skipped});
  if (skipped) {
    ++bad_updates;
    assign(ctx, statistics, statistics_before);
    progress.note(fmt::format("step {}: the {} is not finite (loss {:.4g}); the update was skipped", step,
                              finite_loss ? "gradient" : "loss", value / all));
    if (bad_updates >= config.max_bad_updates) {
      const auto last = checkpoints.latest();
      fail("train", "{} updates in a row had a loss or a gradient that is not finite; {}. Try a smaller `lr` or more warmup_updates",
           bad_updates, last ? fmt::format("the checkpoint of step {} is kept", *last) : "there is no checkpoint yet");
    }
    return;
  }
  bad_updates = 0;
  gradient_norm = norm;
  loss_sum += value;
  targets += all;
  if (!ema.empty()) blend(ctx, ema, config.ema_decay, averaged);
}

void Trainer::State::report() {
  if (targets == 0.0) return;
  const TaskWords words = task.words();
  const double now = seconds(), loss = loss_sum / targets, lr = schedule(step), speed = tokens / std::max(now - since, 1e-9);
  shown = {.epoch = epoch + 1,
           .step = step,
           .total_steps = total_steps,
           .loss = loss,
           .perplexity = words.perplexity ? std::exp(loss) : std::nan(""),
           .lr = lr,
           .gradient_norm = gradient_norm,
           .tokens_per_second = speed,
           .unit = words.unit};
  progress.update(shown);
  if (step % config.log_interval != 0) return;
  Metrics values{{"loss", loss}};
  if (words.perplexity) values.emplace_back("perplexity", std::exp(loss));
  values.insert(values.end(), {{"lr", lr}, {"gradient_norm", gradient_norm}, {fmt::format("{}_per_second", words.units), speed}});
  log->add({.step = step, .epoch = epoch + 1, .split = "train", .seconds = now, .values = values});
  loss_sum = targets = tokens = 0.0;
  since = now;
}

void Trainer::State::train_epoch(std::int64_t batches) {
  Prefetcher<Batch> prefetched([this](std::int64_t i) { return task.prepare(i); }, batch, batches);
  while (batch < batches && !interrupted() && !done()) {
    std::vector<Batch> several;
    while (static_cast<std::int64_t>(several.size()) < config.update_freq) {
      std::optional<Batch> next = prefetched.next();
      if (!next) break;
      several.push_back(std::move(*next));
    }
    ctx.set_training(true);
    update(several);
    ctx.set_training(false);
    batch += static_cast<std::int64_t>(several.size());
    report();
    if (batch >= batches) ++epoch, batch = 0;
    const auto now = [&](std::int64_t interval) { return interval > 0 ? step % interval == 0 : batch == 0; };
    const bool last = done();
    const double trained_until = seconds();
    if (now(config.validate_interval_updates) || last) validate();
    if (now(config.save_interval_updates) || last || validated_at == step) save();
    since += seconds() - trained_until;  // speed is that of training
    if (batch == 0) return;
  }
}

// What the task measures, of the averaged weights where there are such.
Metrics Trainer::State::measure() {
  const NoGradients no_gradients(ctx);
  if (ema.empty()) return task.validate(ctx);
  Metrics out;
  with_weights(ctx, averaged, ema, [&] { out = task.validate(ctx); });
  return out;
}

// What decides is finite, and so is the loss: weights that are not finite may still score.
bool Trainer::State::is_sound(const Metrics& metrics) const {
  return std::all_of(metrics.begin(), metrics.end(), [&](const auto& metric) {
    return std::isfinite(metric.second) || (metric.first != "loss" && metric.first != config.best_metric);
  });
}

bool Trainer::State::weights_are_finite() const {
  std::vector<Tensor> weights;
  for (const NamedParameter& p : averaged) weights.push_back(p.parameter->tensor.detach());
  return std::isfinite(kernels(ctx).sum_of_squares(ctx, weights));
}

void Trainer::State::validate() {
  progress.update({.epoch = shown.epoch, .step = step, .total_steps = total_steps, .phase = "validating"});
  const Metrics measured = measure();
  shown.step = step;
  progress.update(shown);
  validated_at = step;
  const bool learned = adam.steps() > 0;  // while all updates were skipped there is no model yet
  if (measured.empty()) {                 // nothing to compare with: the newest is the best, if its loss was finite
    if (learned && bad_updates == 0 && weights_are_finite()) best_step = step;
    return;
  }
  const auto value = value_of(measured, config.best_metric);
  if (!value) wrong_setting("train", "best_metric", "is '{}': this task measures {}", config.best_metric, describe(measured));
  const auto before = value_of(best, config.best_metric);
  const auto closer = [](std::string_view metric, double a, double b) { return smaller_is_better(metric) ? a < b : a > b; };
  const auto tie = [&] {  // the loss tells models of equal scores apart
    const auto loss = value_of(measured, "loss"), best_loss = value_of(best, "loss");
    return *value == *before && loss && best_loss && *loss < *best_loss;
  };
  const bool better = learned && is_sound(measured) && (!before || closer(config.best_metric, *value, *before) || tie());
  if (better) best = measured, best_step = step, without_improvement = 0;
  else ++without_improvement;
  if (on_validation) on_validation({.step = step, .epoch = batch == 0 ? epoch : epoch + 1, .metrics = measured, .best = better});
  log->add({.step = step, .epoch = batch == 0 ? epoch : epoch + 1, .split = "valid", .seconds = seconds(), .values = measured});
  std::string judged = better ? " (best)" : "";
  if (!is_sound(measured)) judged = ": not finite, so that it cannot be the best";
  if (!better && !best.empty()) judged += fmt::format("; best {:.4g} at step {}", *before, best_step);
  progress.note(fmt::format("step {}: validation {}{}", step, describe(measured), judged));
}

void Trainer::State::save_best() {
  if (ema.empty()) task.save(folder);
  else with_weights(ctx, averaged, ema, [&] { task.save(folder); });
}

SavedRun Trainer::State::saved_run() const {
  SavedRun run{.position = *this, .identity = identity(), .settings = settings()};
  run.position.adam_steps = adam.steps();
  run.position.seconds = seconds();
  return run;
}

void Trainer::State::save() {
  if (saved_at == step) return;
  checkpoints.write(step, [&](const fs::path& at) {
    task.save(at);
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const Adam::State& state : adam.state()) {  // not one a parameter: tied ones have one
      tensors.emplace_back("m." + state.parameter.name, state.m);
      tensors.emplace_back("v." + state.parameter.name, state.v);
    }
    for (std::size_t i = 0; i < ema.size(); ++i) tensors.emplace_back("ema." + averaged[i].name, ema[i]);
    save_safetensors(at / "optimizer.safetensors", tensors);
    write_run(at / "trainer.json", saved_run());
  });
  saved_at = step;
  if (best_step == step) save_best();  // after the checkpoint that says so: a resumed run repeats this, it cannot miss it
  checkpoints.keep_last(std::max(config.keep_last, config.average));
}

json Trainer::State::identity() const {
  json out = task.identity();
  out["training"] = {{"seed", ctx.random().seed()}, {"update_freq", config.update_freq}};
  return out;
}

// An epoch has so many batches: how long the training is, and how the learning rate goes.
void Trainer::State::plan_schedule(std::int64_t batches) {
  const std::int64_t updates = (batches + config.update_freq - 1) / config.update_freq;
  total_steps = config.max_update;
  if (config.max_epoch > 0 && (total_steps == 0 || config.max_epoch <= total_steps / updates)) total_steps = config.max_epoch * updates;
  schedule.total = total_steps;
  schedule.warmup = warmup_of(config, total_steps);
}

// What can be known before the first update, and before anything is written.
void Trainer::State::check_task() {
  const std::vector<std::string> names = task.metrics();
  if (!names.empty() && std::find(names.begin(), names.end(), config.best_metric) == names.end())
    wrong_setting("train", "best_metric", "is '{}': this task measures {}", config.best_metric, fmt::join(names, ", "));
  if (names.empty() && config.max_epoch == 0 && config.max_update == 0)
    wrong_setting(
        "train", "",
        "training would never end: there is no validation data, so that `patience` has nothing to count; give max_epoch or max_update");
  if (schedule.kind != Schedule::Kind::cosine || !config.warmup_updates) return;
  if (const std::int64_t batches = task.plan(0); batches > 0) plan_schedule(batches);
  if (schedule.warmup >= total_steps)
    wrong_setting("train", "warmup_updates", "is {}, but the whole training has {} updates: set it lower, or train longer", schedule.warmup,
                  total_steps);
}

json Trainer::State::settings() const {
  json out = to_json(config);
  for (const char* free : {"save_dir", "quiet", "max_epoch", "max_update", "log_interval"}) out.erase(free);
  out["precision"] = name_of(ctx.precision());
  out["threads"] = ctx.threads();
  return out;
}

void Trainer::State::resume() {
  const auto latest = checkpoints.latest();
  if (!latest) {
    for (const char* name :
         {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "adapter_model.safetensors", "config.json"})
      if (fs::exists(folder / name))
        fail(folder.string(),
             "this folder holds a model ({}) but no state of training to go on from; choose another folder, so that it is not lost", name);
    if (config.ema_decay > 0.0F) ema = copy_of(ctx, averaged);
    log.emplace(folder);
    return;
  }
  const fs::path at = checkpoints.at(*latest);
  try {
    const SavedRun saved = read_run(at / "trainer.json");
    if (const auto changed = differences(saved.identity, identity()); !changed.empty())
      fail("train", "this is not the run that was stopped:\n  {}\nUndo the change, or choose another save_dir", fmt::join(changed, "\n  "));
    for (const std::string& change : differences(saved.settings, settings())) progress.note("note: " + change);

    task.load(ctx, at);
    const SafetensorsFile optimizer(at / "optimizer.safetensors");
    for (std::size_t i = 0; i < adam.state().size(); ++i) {
      const std::string& name = adam.state()[i].parameter.name;
      adam.set_state(ctx, i, optimizer.tensor("m." + name), optimizer.tensor("v." + name));
    }
    adam.set_steps(saved.position.adam_steps);
    if (config.ema_decay > 0.0F) {
      ema = copy_of(ctx, averaged);
      for (std::size_t i = 0; i < averaged.size(); ++i)
        if (const std::string name = "ema." + averaged[i].name; optimizer.contains(name)) copy_into(ctx, optimizer.tensor(name), ema[i]);
    }
    static_cast<Position&>(*this) = saved.position;
    if (!is_sound(best)) best.clear(), best_step = 0;
    seconds_before = saved.position.seconds;
  } catch (const std::exception& e) {
    fail(at.string(), "cannot go on from this checkpoint: {}", e.what());
  }
  saved_at = step;
  if (best_step == step) save_best();
  log.emplace(folder, step);
  if (!done()) progress.note(fmt::format("going on from step {} (epoch {}, {} trained so far)", step, epoch + 1, duration(seconds_before)));
}

// A run that is over has made a model, or says that it has not.
void Trainer::State::check_end() const {
  if (best_step > 0) return;
  std::string why = fmt::format("after {} updates no validation was finite", step);
  if (task.metrics().empty()) why = fmt::format("the last {} of {} updates had a loss or a gradient that is not finite", bad_updates, step);
  if (adam.steps() == 0) why = fmt::format("none of the {} updates had a finite loss and gradient", step);
  fail("train", "{}: there is no model to keep. Try a smaller `lr` or more warmup_updates, in another save_dir", why);
}

// The mean of the last checkpoints' weights: often better than any one of them.
void Trainer::State::average(TrainResult& result) {
  std::vector<std::int64_t> steps = checkpoints.steps();
  if (const auto wanted = static_cast<std::size_t>(config.average); steps.size() > wanted)
    steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(wanted));
  with_weights(ctx, averaged, copy_of(ctx, averaged), [&] {
    Weights mean;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      task.load(ctx, checkpoints.at(steps[i]));
      if (i == 0) mean = copy_of(ctx, averaged);
      else blend(ctx, mean, static_cast<float>(i) / static_cast<float>(i + 1), averaged);
    }
    assign(ctx, averaged, mean);
    const NoGradients no_gradients(ctx);
    result.average = task.validate(ctx);
    if (!is_sound(result.average) || !weights_are_finite())
      fail("train", "the average of the last {} checkpoints is not finite ({}) and was not saved; the best model, of step {}, is in {}",
           steps.size(), describe(result.average), best_step, folder.string());
    task.save(make_folder(folder / "average"));
  });
  progress.note(fmt::format("average of the last {} checkpoints: {}", steps.size(), describe(result.average)));
}

Trainer::Trainer(Context& ctx, Task& task, const TrainConfig& config, const std::atomic<bool>* stop)
    : state_(std::make_unique<State>(ctx, task, config, stop)) {}
Trainer::~Trainer() = default;

void Trainer::on_step(std::function<void(const TrainStep&)> callback) { state_->on_step = std::move(callback); }
void Trainer::on_validation(std::function<void(const TrainValidation&)> callback) { state_->on_validation = std::move(callback); }

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
  const Checkpoints checkpoints(folder);
  const auto step = checkpoints.latest();
  return step ? std::optional(checkpoints.at(*step)) : std::nullopt;
}

TrainResult Trainer::run() {
  State& s = *state_;
  s.check_task();
  s.resume();
  s.since = s.seconds();
  const std::int64_t begun_at = s.step;
  while (!s.done() && !s.interrupted()) {
    const std::int64_t batches = s.task.plan(s.epoch);
    if (batches < 1) fail("train", "there is no data: the epoch has no batches");
    s.plan_schedule(batches);
    s.train_epoch(batches);
  }
  TrainResult result{.begun_at = begun_at, .step = s.step, .epoch = s.epoch, .best_step = s.best_step, .best = s.best};
  if (!s.done()) {
    result.end = TrainResult::End::interrupted;
    if (s.step > 0) s.save();
  } else {
    s.check_end();
    if (s.out_of_patience()) result.end = TrainResult::End::no_improvement;
    if (s.config.average > 0) s.average(result);
  }
  s.progress.finish();
  return result;
}

}  // namespace transformer
