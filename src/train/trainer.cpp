#include "transformer/train/trainer.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "train/checkpoint.h"
#include "train/weights.h"
#include "transformer/io/json.h"
#include "transformer/io/safetensors.h"
#include "transformer/ops/copy.h"
#include "transformer/text/prefetch.h"
#include "transformer/train/metrics_log.h"
#include "transformer/train/progress.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int format_version = 1;

// Every path at which a and b differ, with both values: "architecture.d_model: 128 in the checkpoint, 256 now".
void differences(const json& before, const json& now, const std::string& path, std::vector<std::string>& out) {
  if (before.is_object() && now.is_object()) {
    json keys = before;
    keys.update(now);
    for (const auto& [key, ignored] : keys.items())
      differences(before.value(key, json()), now.value(key, json()), path.empty() ? key : path + "." + key, out);
  } else if (before != now) {
    out.push_back(fmt::format("{}: {} in the checkpoint, {} now", path, before.dump(), now.dump()));
  }
}

json to_object(const Metrics& metrics) {
  json out = json::object();
  for (const auto& [name, value] : metrics) out[name] = std::isfinite(value) ? json(value) : json(nullptr);
  return out;
}

Metrics from_object(const json& object) {
  Metrics out;
  for (const auto& [name, value] : object.items()) out.emplace_back(name, value.is_number() ? value.get<double>() : std::nan(""));
  return out;
}

std::optional<double> value_of(const Metrics& metrics, std::string_view name) {
  for (const auto& [key, value] : metrics)
    if (key == name) return value;
  return std::nullopt;
}

// Weights that are not finite may still score: their model is never the better one.
bool is_sound(const Metrics& metrics) {
  return std::all_of(metrics.begin(), metrics.end(), [](const auto& metric) { return std::isfinite(metric.second); });
}

// Losses and perplexities should fall; scores rise.
bool smaller_is_better(std::string_view metric) {
  return metric == "loss" || metric == "perplexity" || metric == "mse" || metric == "mae" || metric == "bits_per_byte";
}

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path.string(), "cannot make the folder: {}", error.message());
  return path;
}

}  // namespace

std::string describe(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text;
}

void check(const TrainConfig& c) {
  if (c.save_dir.empty()) fail("train", "save_dir is missing: expected a folder for the model and the state of training");
  if (c.max_epoch < 0 || c.max_update < 0)
    fail("train", "max_epoch is {} and max_update {}: expected 0 or more", c.max_epoch, c.max_update);
  if (c.max_epoch == 0 && c.max_update == 0 && c.patience == 0)
    fail("train", "training would never end: give max_epoch, max_update or patience");
  if (c.update_freq < 1) fail("train", "update_freq is {}: expected 1 or more", c.update_freq);
  if (c.keep_last < 1) fail("train", "keep_last is {}: expected 1 or more, the state of training is resumed from it", c.keep_last);
  if (!(c.lr > 0.0F)) fail("train", "lr is {}: expected more than 0", c.lr);
  if (c.min_lr && !(*c.min_lr >= 0.0F && *c.min_lr <= c.lr)) fail("train", "min_lr is {}: expected 0 to lr, {}", *c.min_lr, c.lr);
  if (c.warmup_updates && *c.warmup_updates < 0) fail("train", "warmup_updates is {}: expected 0 or more", *c.warmup_updates);
  if (!(c.clip_norm >= 0.0F)) fail("train", "clip_norm is {}: expected 0 or more", c.clip_norm);
  if (!(c.ema_decay >= 0.0F && c.ema_decay < 1.0F)) fail("train", "ema_decay is {}: expected a value in [0, 1)", c.ema_decay);
  if (c.average < 0 || c.log_interval < 1 || c.max_bad_updates < 1 || c.patience < 0)
    fail("train", "average, patience, log_interval and max_bad_updates are {}, {}, {} and {}: expected 0, 0, 1 and 1 or more", c.average,
         c.patience, c.log_interval, c.max_bad_updates);
  if (c.lr_scheduler == Schedule::Kind::cosine && c.max_update == 0 && c.max_epoch == 0)
    fail("train", "the cosine schedule needs max_update or max_epoch, where it ends");
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

struct Trainer::State {
  Context& ctx;
  Task& task;
  TrainConfig config;
  const std::atomic<bool>* stop;
  fs::path folder;
  FolderLock lock;
  Checkpoints checkpoints;
  std::vector<NamedParameter> parameters;
  Adam adam;
  Schedule schedule;
  Weights ema;  // empty: none
  std::optional<MetricsLog> log;
  Progress progress;

  // The position. `batch` is the next one of `epoch`.
  std::int64_t step = 0, epoch = 0, batch = 0, bad_updates = 0;
  std::int64_t best_step = 0, without_improvement = 0, validated_at = -1, saved_at = -1;
  Metrics best;

  std::int64_t total_steps = 0;  // as far as it can be told
  double seconds_before = 0.0;   // of the runs that this one goes on from

  // Since the last line of metrics, which was written at `since`.
  double loss_sum = 0.0, targets = 0.0, tokens = 0.0, gradient_norm = 0.0, since = 0.0;

  State(Context& c, Task& t, const TrainConfig& settings, const std::atomic<bool>* stop_flag)
      : ctx(c), task(t), config(settings), stop(stop_flag), folder((check(settings), make_folder(settings.save_dir))), lock(folder),
        checkpoints(folder), parameters(t.parameters()),
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
                  .log_interval = settings.log_interval}) {}

  void resume();
  void save();
  void save_best();
  void plan_schedule(std::int64_t batches);
  void check_task();
  void validate();
  json identity() const;
  json settings() const;
  void train_epoch(std::int64_t batches);
  void update(std::vector<Batch>& batches);
  void report();
  void average(TrainResult& result);
  double seconds() const { return seconds_before + progress.elapsed(); }
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
  for (const Batch& b : batches) all += static_cast<double>(b.targets);
  for (const Batch& b : batches) {
    const auto share = static_cast<float>(static_cast<double>(b.targets) / all);
    const Tensor loss = task.loss(ctx, b);
    value += static_cast<double>(loss.item()) * static_cast<double>(b.targets);
    tokens += static_cast<double>(b.tokens);
    backward(ctx, loss, batches.size() == 1 ? Tensor() : Tensor::full(ctx, loss.shape(), share));
  }
  const float lr = schedule(step);
  gradient_norm = adam.step(ctx, lr, config.clip_norm);
  adam.zero_gradients();
  if (!std::isfinite(gradient_norm) || !std::isfinite(value)) {
    ++bad_updates;
    progress.note(fmt::format("step {}: the gradient is not finite (loss {:.4g}); the update was skipped", step, value / all));
    if (bad_updates >= config.max_bad_updates) {
      const auto last = checkpoints.latest();
      fail("train", "{} updates in a row had a gradient that is not finite; {}. Try a smaller lr or a longer warm-up", bad_updates,
           last ? fmt::format("the checkpoint of step {} is kept", *last) : "there is no checkpoint yet");
    }
    return;
  }
  bad_updates = 0;
  loss_sum += value;
  targets += all;
  if (!ema.empty()) blend(ctx, ema, config.ema_decay, parameters);
}

void Trainer::State::report() {
  if (targets == 0.0) return;
  const TaskWords words = task.words();
  const double now = seconds(), loss = loss_sum / targets, lr = schedule(step), speed = tokens / std::max(now - since, 1e-9);
  progress.update({.epoch = epoch + 1,
                   .step = step,
                   .total_steps = total_steps,
                   .loss = loss,
                   .perplexity = words.perplexity ? std::exp(loss) : std::nan(""),
                   .lr = lr,
                   .gradient_norm = gradient_norm,
                   .tokens_per_second = speed,
                   .unit = words.unit});
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
    if (now(config.validate_interval_updates) || last) validate();
    if (now(config.save_interval_updates) || last || validated_at == step) save();
    if (batch == 0) return;
  }
}

void Trainer::State::validate() {
  progress.update({.epoch = epoch, .step = step, .total_steps = total_steps, .phase = "validating"});
  std::optional<Exchanged> smoothed;
  if (!ema.empty()) smoothed.emplace(ctx, parameters, ema);
  const NoGradients no_gradients(ctx);
  const Metrics measured = task.validate(ctx);
  validated_at = step;
  if (measured.empty()) return void(best_step = step);  // nothing to compare with: the newest is the best
  const auto value = value_of(measured, config.best_metric);
  if (!value) fail("train", "best_metric is '{}': this task measures {}", config.best_metric, describe(measured));
  const auto before = value_of(best, config.best_metric);
  const bool closer = before && (smaller_is_better(config.best_metric) ? *value < *before : *value > *before);
  const bool better = !before || (is_sound(measured) && (!is_sound(best) || closer));
  if (better) best = measured, best_step = step, without_improvement = 0;
  else ++without_improvement;
  log->add({.step = step, .epoch = batch == 0 ? epoch : epoch + 1, .split = "valid", .seconds = seconds(), .values = measured});
  progress.note(fmt::format(
      "step {}: validation {}{}", step, describe(measured),
      better ? " (best)" : fmt::format("; best {:.4g} at step {}", value_of(best, config.best_metric).value_or(0.0), best_step)));
}

void Trainer::State::save_best() {
  std::optional<Exchanged> smoothed;
  if (!ema.empty()) smoothed.emplace(ctx, parameters, ema);
  task.save(folder);
}

void Trainer::State::save() {
  if (saved_at == step) return;
  checkpoints.write(step, [&](const fs::path& at) {
    task.save(at);
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].name;
      tensors.emplace_back("m." + name, adam.state()[i].m);
      tensors.emplace_back("v." + name, adam.state()[i].v);
      if (!ema.empty()) tensors.emplace_back("ema." + name, ema[i]);
    }
    save_safetensors(at / "optimizer.safetensors", tensors);
    write_json(at / "trainer.json",
               {{"version", format_version},
                {"step", step},
                {"epoch", epoch},
                {"batch", batch},
                {"adam_steps", adam.steps()},
                {"bad_updates", bad_updates},
                {"best", {{"step", best_step}, {"metrics", to_object(best)}, {"without_improvement", without_improvement}}},
                {"seconds", seconds()},
                {"identity", identity()},
                {"settings", settings()}});
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
    fail("train", "best_metric is '{}': this task measures {}", config.best_metric, fmt::join(names, ", "));
  if (names.empty() && config.max_epoch == 0 && config.max_update == 0)
    fail("train",
         "training would never end: there is no validation data, so that patience has nothing to count; give max_epoch or max_update");
  if (schedule.kind != Schedule::Kind::cosine || !config.warmup_updates) return;
  if (const std::int64_t batches = task.plan(0); batches > 0) plan_schedule(batches);
  if (schedule.warmup >= total_steps)
    fail("train", "warmup_updates is {}, but the whole training has {} updates: set it lower, or train longer", schedule.warmup,
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
    if (fs::exists(folder / "model.safetensors"))
      fail(folder.string(),
           "this folder holds a model but no state of training to go on from; choose another folder, so that it is not lost");
    if (config.ema_decay > 0.0F) ema = copy_of(ctx, parameters);
    log.emplace(folder);
    return;
  }
  const fs::path at = checkpoints.at(*latest);
  try {
    const json saved = read_json(at / "trainer.json");
    if (saved.at("version") != format_version) fail("train", "it was written by another version of this program");
    std::vector<std::string> changed;
    differences(saved.at("identity"), identity(), "", changed);
    if (!changed.empty())
      fail("train", "this is not the run that was stopped:\n  {}\nUndo the change, or choose another save_dir", fmt::join(changed, "\n  "));
    differences(saved.at("settings"), settings(), "", changed);
    for (const std::string& change : changed) progress.note("note: " + change);

    task.load(ctx, at);
    const SafetensorsFile optimizer(at / "optimizer.safetensors");
    for (std::size_t i = 0; i < parameters.size(); ++i)
      adam.set_state(ctx, i, optimizer.tensor("m." + parameters[i].name), optimizer.tensor("v." + parameters[i].name));
    adam.set_steps(saved.at("adam_steps"));
    if (config.ema_decay > 0.0F) {
      ema = copy_of(ctx, parameters);
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (const std::string name = "ema." + parameters[i].name; optimizer.contains(name)) copy_into(ctx, optimizer.tensor(name), ema[i]);
    }
    step = saved.at("step"), epoch = saved.at("epoch"), batch = saved.at("batch"), bad_updates = saved.at("bad_updates");
    best_step = saved.at("best").at("step"), without_improvement = saved.at("best").at("without_improvement");
    best = from_object(saved.at("best").at("metrics"));
    seconds_before = saved.at("seconds");
  } catch (const std::exception& e) {
    fail(at.string(), "cannot go on from this checkpoint: {}", e.what());
  }
  saved_at = step;
  if (best_step == step) save_best();
  log.emplace(folder, step);
  progress.note(fmt::format("going on from step {} (epoch {}, {} trained so far)", step, epoch + 1, duration(seconds_before)));
}

// The mean of the last checkpoints' weights: often better than any one of them.
void Trainer::State::average(TrainResult& result) {
  std::vector<std::int64_t> steps = checkpoints.steps();
  if (const auto wanted = static_cast<std::size_t>(config.average); steps.size() > wanted)
    steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(wanted));
  const Weights own = copy_of(ctx, parameters);
  Weights mean;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    task.load(ctx, checkpoints.at(steps[i]));
    if (i == 0) mean = copy_of(ctx, parameters);
    else blend(ctx, mean, static_cast<float>(i) / static_cast<float>(i + 1), parameters);
  }
  assign(ctx, parameters, mean);
  {
    const NoGradients no_gradients(ctx);
    result.average = task.validate(ctx);
  }
  task.save(make_folder(folder / "average"));
  assign(ctx, parameters, own);
  progress.note(fmt::format("average of the last {} checkpoints: {}", steps.size(), describe(result.average)));
}

Trainer::Trainer(Context& ctx, Task& task, const TrainConfig& config, const std::atomic<bool>* stop)
    : state_(std::make_unique<State>(ctx, task, config, stop)) {}
Trainer::~Trainer() = default;

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
  while (!s.done() && !s.interrupted()) {
    const std::int64_t batches = s.task.plan(s.epoch);
    if (batches < 1) fail("train", "there is no data: the epoch has no batches");
    s.plan_schedule(batches);
    s.train_epoch(batches);
  }
  TrainResult result{.step = s.step, .epoch = s.epoch, .best_step = s.best_step, .best = s.best};
  if (!s.done()) {
    result.end = TrainResult::End::interrupted;
    if (s.step > 0) s.save();
  } else {
    if (s.out_of_patience()) result.end = TrainResult::End::no_improvement;
    if (s.config.average > 0) s.average(result);
  }
  s.progress.finish();
  return result;
}

}  // namespace transformer
