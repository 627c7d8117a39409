#include "transformer/train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backend/kernels.h"
#include "io/shared/prefetch.h"
#include "train/trainer_state.h"
#include "transformer/core/setting_error.h"

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

// The gradients of micro-batches numbered begin … end, summed as a tree, halves first: as processes of which each has one do.
template <class Compute>
void Trainer::State::sum_halves(std::span<const Prepared> mine, std::uint32_t begin, std::uint32_t end, Compute&& compute) {
  if (mine.empty()) return;
  if (mine.size() == 1) return compute(mine.front(), false);
  const std::uint32_t middle = (begin + end) / 2;
  const auto at = static_cast<std::size_t>(
      std::find_if(mine.begin(), mine.end(), [&](const Prepared& micro) { return micro.number >= middle; }) - mine.begin());
  sum_halves(mine.first(at), begin, middle, compute);
  if (at == mine.size()) return;
  if (at == 0) return sum_halves(mine, middle, end, compute);
  const Adam::Gradients first = adam.take_gradients(ctx);
  sum_halves(mine.subspan(at), middle, end, compute);
  adam.add_gradients(ctx, first);
}

// One update from the gradients of several micro-batches, each weighted by its share of the targets of all processes, which have
// micro_batches together. How it went is known when the device has come so far: see settle.
void Trainer::State::update(std::vector<Prepared>& mine, const Totals& all, std::uint32_t micro_batches) {
  const bool whole = micro_batches == 1;
  ++step;
  ctx.random().begin_step(static_cast<std::uint32_t>(step));
  auto done = std::make_unique<Launched>();
  done->step = step, done->epoch = epoch + 1, done->lr = schedule(step);
  done->targets = all.targets, done->tokens = static_cast<std::int64_t>(all.tokens);
  std::optional<Pass> pass;  // what processes exchange cannot be repeated without them
  if (processes.alone()) pass.emplace(ctx);
  Weights now = tensors_of(statistics);
  const Weights statistics_before = copy_of(ctx, now);
  StatisticsMean mean(ctx, whole && processes.alone() ? Weights() : now, statistics_before);
  adam.begin(ctx, done->lr);
  // With layers in pieces an exchange waits for all: those with fewer micro-batches would wait in the middle of their last one.
  const bool overlapping = adam.pieces() == nullptr || micro_batches % static_cast<std::uint32_t>(processes.size()) == 0;
  const auto compute = [&](const Prepared& micro, bool last) {
    ctx.random().begin_step(static_cast<std::uint32_t>(step), micro.number);
    mean.begin(ctx);
    const double share = static_cast<double>(micro.batch.targets) / done->targets;
    const Tensor loss = task.loss(ctx, micro.batch);
    adam.add_loss(ctx, loss, share);
    mean.add(ctx, share);
    backward(ctx, loss, whole ? Tensor() : Tensor::full(ctx, loss.shape(), static_cast<float>(share)),
             last && overlapping ? adam.exchanging() : nullptr);
  };
  if (parts == 1 || mine.size() < 2) {
    for (const Prepared& micro : mine) compute(micro, &micro == &mine.back());
  } else {
    sum_halves(mine, 0, micro_batches, compute);
  }
  adam.update(ctx, config.clip_norm);
  mean.finish(ctx);  // after all gradients: who has computed nothing comes to these only in update
  adam.zero_gradients();
  if (!now.empty()) kernels(ctx).undo_if_skipped(ctx, statistics_before, now, adam.step_state());
  if (!ema.empty()) kernels(ctx).blend(ctx, ema.blocks, config.ema_decay, ema.of, adam.step_state());
  if (pass) pass->end();
  done->arrival = adam.result(ctx, done->result);
  launched.push_back(std::move(done));
}

// Takes note of the updates that are known to have ended; waits until at most `ahead` are not.
void Trainer::State::settle(int ahead) {
  while (!launched.empty() && (std::ssize(launched) > ahead || launched.front()->arrival->there())) {
    const std::unique_ptr<Launched> done = std::move(launched.front());
    launched.pop_front();
    done->arrival->wait();
    ended(*done);
  }
}

void Trainer::State::ended(const Launched& u) {
  const double loss = u.result.loss, norm = u.result.norm;
  const bool skipped = u.result.finite == 0;
  tokens += static_cast<double>(u.tokens);
  if (on_step)
    on_step({.step = u.step, .epoch = u.epoch, .loss = loss, .lr = u.lr, .gradient_norm = norm, .tokens = u.tokens, .skipped = skipped});
  if (skipped) {
    ++bad_updates;
    progress.note(fmt::format("step {}: the {} is not finite (loss {:.4g}); the update was skipped", u.step,
                              std::isfinite(loss) ? "gradient" : "loss", loss));
    if (bad_updates >= config.max_bad_updates) {
      const auto last = checkpoints.latest();
      fail("train", "{} updates in a row had a loss or a gradient that is not finite; {}. Try a smaller `lr` or more warmup_updates",
           bad_updates, last ? fmt::format("the checkpoint of step {} is kept", *last) : "there is no checkpoint yet");
    }
  } else {
    bad_updates = 0;
    gradient_norm = norm;
    loss_sum += loss * u.targets;
    targets += u.targets;
  }
  report(u);
}

void Trainer::State::report(const Launched& u) {
  if (targets == 0.0) return;
  const TaskWords words = task.words();
  const double now = seconds(), loss = loss_sum / targets, speed = tokens / std::max(now - since, 1e-9);
  shown = {.epoch = u.epoch,
           .step = u.step,
           .total_steps = total_steps,
           .loss = loss,
           .perplexity = words.perplexity ? std::exp(loss) : std::nan(""),
           .lr = u.lr,
           .gradient_norm = gradient_norm,
           .tokens_per_second = speed,
           .unit = words.unit};
  progress.update(shown);
  if (u.step % config.log_interval != 0) return;
  Metrics values{{"loss", loss}};
  if (words.perplexity) values.emplace_back("perplexity", std::exp(loss));
  values.insert(values.end(), {{"lr", u.lr}, {"gradient_norm", gradient_norm}, {fmt::format("{}_per_second", words.units), speed}});
  if (log) log->add({.step = u.step, .epoch = u.epoch, .split = "train", .seconds = now, .values = values});
  loss_sum = targets = tokens = 0.0;
  since = now;
}

void Trainer::State::train_epoch(std::int64_t batches) {
  const std::vector<MicroBatch> micro = micro_batches(batch, batches, config.update_freq, parts, processes.place());
  Prefetcher<Batch> prefetched(
      [&](std::int64_t i) {
    const MicroBatch& m = micro[static_cast<std::size_t>(i)];
    return task.prepare(m.batch, m.share);
      },
      0, std::ssize(micro));
  auto next = micro.begin();
  while (batch < batches && !done()) {
    const std::int64_t end = std::min(batch + config.update_freq, batches);
    if (processes.alone() && interrupted()) stopped = true;
    if (stopped) break;
    std::vector<Prepared> mine;
    Totals sums{.stop = interrupted() ? 1.0 : 0.0};
    for (; next != micro.end() && next->batch < end; ++next) {
      Batch prepared = std::move(*prefetched.next());
      if (prepared.targets == 0) continue;  // a part of a small batch
      sums.targets += static_cast<double>(prepared.targets), sums.tokens += static_cast<double>(prepared.tokens);
      mine.push_back({std::move(prepared), next->number});
    }
    sums = total(processes, sums);
    stopped = !processes.alone() && sums.stop > 0.0;
    if (stopped) break;
    ctx.set_training(true);
    update(mine, sums, static_cast<std::uint32_t>((end - batch) * parts));
    ctx.set_training(false);
    batch = end;
    settle(ctx.backend().steps_ahead());
    if (batch >= batches) ++epoch, batch = 0;
    const auto now = [&](std::int64_t interval) { return interval > 0 ? step % interval == 0 : batch == 0; };
    const bool last = done();
    const bool validating = now(config.validate_interval_updates) || last, saving = now(config.save_interval_updates) || last;
    if (validating || saving || batch == 0) settle(0);
    const double trained_until = seconds();
    if (validating) validate();
    if (saving || validated_at == step) save();
    since += seconds() - trained_until;  // speed is that of training
    if (batch == 0) return;
  }
}

// What the task measures, of the averaged weights where there are such.
Metrics Trainer::State::measure() {
  const NoGradients no_gradients(ctx);
  if (ema.empty()) return task.validate(ctx);
  Metrics out;
  with_weights(ctx, averaged, ema.weights, [&] { out = task.validate(ctx); });
  return out;
}

// What decides is finite, and so is the loss: weights that are not finite may still score.
bool Trainer::State::is_sound(const Metrics& metrics) const {
  return std::all_of(metrics.begin(), metrics.end(), [&](const auto& metric) {
    return std::isfinite(metric.second) || (metric.first != "loss" && metric.first != config.best_metric);
  });
}

bool Trainer::State::weights_are_finite() const {
  std::array sum{kernels(ctx).sum_of_squares(ctx, averaged)};
  processes.sum(sum);
  return std::isfinite(sum.front());
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
  if (log) log->add({.step = step, .epoch = batch == 0 ? epoch : epoch + 1, .split = "valid", .seconds = seconds(), .values = measured});
  std::string judged = better ? " (best)" : "";
  if (!is_sound(measured)) judged = ": not finite, so that it cannot be the best";
  if (!better && !best.empty()) judged += fmt::format("; best {:.4g} at step {}", *before, best_step);
  progress.note(fmt::format("step {}: validation {}{}", step, describe(measured), judged));
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

// A run that is over has made a model, or says that it has not.
void Trainer::State::check_end() const {
  if (best_step > 0) return;
  std::string why = fmt::format("after {} updates no validation was finite", step);
  if (task.metrics().empty()) why = fmt::format("the last {} of {} updates had a loss or a gradient that is not finite", bad_updates, step);
  if (adam.steps() == 0) why = fmt::format("none of the {} updates had a finite loss and gradient", step);
  fail("train", "{}: there is no model to keep. Try a smaller `lr` or more warmup_updates, in another save_dir", why);
}

Trainer::Trainer(Context& ctx, Task& task, const TrainConfig& config, const std::atomic<bool>* stop)
    : state_(std::make_unique<State>(ctx, task, config, stop)) {}
Trainer::~Trainer() = default;

void Trainer::on_step(std::function<void(const TrainStep&)> callback) { state_->on_step = std::move(callback); }
void Trainer::on_validation(std::function<void(const TrainValidation&)> callback) { state_->on_validation = std::move(callback); }

TrainResult Trainer::run() {
  State& s = *state_;
  s.check_task();
  s.join();
  s.resume();
  s.since = s.seconds();
  const std::int64_t begun_at = s.step;
  while (!s.done() && !s.stopped) {
    const std::int64_t batches = s.task.plan(s.epoch);
    if (batches < 1) fail("train", "there is no data: the epoch has no batches");
    s.plan_schedule(batches);
    s.train_epoch(batches);
  }
  TrainResult result{.begun_at = begun_at, .step = s.step, .epoch = s.epoch, .best_step = s.best_step, .best = s.best};
  if (!s.done()) {
    result.end = TrainResult::End::interrupted;
    s.settle(0);
    if (s.step > 0) s.save();
  } else {
    s.check_end();
    if (s.out_of_patience()) result.end = TrainResult::End::no_improvement;
    if (s.config.average > 0) s.average(result);
  }
  s.processes.barrier();  // what the first has written is there
  s.progress.finish();
  return result;
}

}  // namespace transformer
