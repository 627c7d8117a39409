#include "task_step.h"

#include <cmath>
#include <cstdio>

#include "measure.h"
#include "peers.h"
#include "transformer/text/prefetch.h"
#include "transformer/train/schedule.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

// Those of nanoGPT; the time of an update does not depend on them.
constexpr float peak_lr = 1e-3F, clip_norm = 1.0F;
constexpr AdamOptions adam{.beta1 = 0.9F, .beta2 = 0.99F, .eps = 1e-8F, .weight_decay = 0.1F};
constexpr std::int64_t warmup = 100;

// A task in a context of its own, with the batches of its first epoch planned.
struct Ours {
  Context ctx;
  std::unique_ptr<ModelTask> task;
  std::int64_t batches;

  Ours(const TaskOptions& options, DType precision)
      : ctx({.threads = options.threads, .seed = 1, .precision = precision}), task(make_task(ctx, options)), batches(task->plan(0)) {}
};

double samples_of(const std::vector<Batch>& batches) {
  double samples = 0.0;
  for (const Batch& batch : batches) samples += static_cast<double>(batch.tokens);
  return samples;
}

struct Rounds {
  std::vector<double> seconds;     // of each round
  double first = 0.0, last = 0.0;  // mean loss of the first round, which only warms up, and of the last
};

// Passes over the first `count` batches, which the background thread makes anew each time.
void measure(const TaskOptions& options, DType precision, std::int64_t count, Rounds& rounds) {
  Ours ours(options, precision);
  TaskStep step(ours.ctx, *ours.task, adam);
  Prefetcher<Batch> batches([&](std::int64_t i) { return ours.task->prepare(i % count); }, 0, count * (options.rounds + 1));
  for (int round = 0; round <= options.rounds; ++round) {
    double loss = 0.0;
    const double begin = seconds();
    for (std::int64_t i = 0; i < count; ++i) loss += step.run(*batches.next(), peak_lr);
    if (round > 0) rounds.seconds.push_back(seconds() - begin);
    (round == 0 ? rounds.first : rounds.last) = loss / static_cast<double>(count);
  }
  if (!(rounds.last < rounds.first))
    fail("bench", "the loss of {} batches went from {} to {}: this is not training", count, rounds.first, rounds.last);
}

// Seconds of a whole training, validation not among them; and what it measures at the end.
std::pair<double, Metrics> train_whole(const TaskOptions& options, DType precision, std::int64_t updates) {
  Ours ours(options, precision);
  TaskStep step(ours.ctx, *ours.task, adam);
  const Schedule schedule{.kind = Schedule::Kind::cosine, .peak = peak_lr, .warmup = warmup, .total = updates, .floor = 0.1F * peak_lr};
  const double begin = seconds();
  for (std::int64_t done = 0, epoch = 0; done < updates; ++epoch) {
    const std::int64_t count = std::min(updates - done, epoch == 0 ? ours.batches : ours.task->plan(epoch));
    Prefetcher<Batch> batches([&](std::int64_t i) { return ours.task->prepare(i); }, 0, count);
    while (const auto batch = batches.next()) step.run(*batch, schedule(++done));
  }
  const double taken = seconds() - begin;
  ours.ctx.set_training(false);
  const NoGradients no_gradients(ours.ctx);
  return {taken, ours.task->validate(ours.ctx)};
}

// config.json with every dropout at 0.
json without_dropout(const json& config) {
  json changes = json::object();
  for (const auto& [key, value] : config.items())
    if (key.find("drop") != std::string::npos && value.is_number_float()) changes[key] = 0.0;
  return changes;
}

// Both sides compute the same: the loss of a batch and the norm of its gradient, in float32 without dropout.
void check_peer(const TaskOptions& options, const std::string& arguments, const std::filesystem::path& folder, const Batch& batch) {
  Context ctx({.threads = options.threads, .seed = 1});
  ctx.set_training(true);
  const json config = make_task(ctx, options)->model().config();
  const auto model = load_model(ctx, folder, {.changes = without_dropout(config)});
  Adam optimizer(ctx, model->parameters());
  const Tensor loss = model->run(ctx, to_tensors(ctx, *std::any_cast<HostTensors>(&batch.content)), {.logits = false}).at("loss");
  const double ours = loss.item();
  backward(ctx, loss);
  const double norm = optimizer.step(ctx, 0.0F);
  const json theirs = run_peer("torch_task.py", arguments + " --check").front();
  const auto differ = [](double a, double b, double tolerance) { return !(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))); };
  const double loss_there = theirs.at("loss"), norm_there = theirs.at("gradient_norm");
  if (differ(ours, loss_there, 1e-4) || differ(norm, norm_there, 1e-3))
    fail("bench", "the two sides compute different things: loss {} here and {} there, norm of the gradient {} and {}", ours, loss_there,
         norm, norm_there);
  std::printf("The same batch on both sides: loss %.6f and %.6f, norm of the gradient %.6f and %.6f\n\n", ours, loss_there, norm,
              norm_there);
}

void print_row(const std::string& who, const std::string& dtype, double time, double rate, const std::string& remark = "") {
  std::printf("%-34s %-9s %12.3f %12.1f   %s\n", who.c_str(), dtype.c_str(), time, rate, remark.c_str());
}

// Adds to each peer's line how many times as fast we are, by the figure of that name.
void print_peers(std::vector<json>& peers, const std::string& dtype, const char* time, double ours, double work) {
  for (json& peer : peers) {
    const double theirs = peer.at(time);
    peer["speedup"] = theirs / ours;
    print_row(peer_name(peer), dtype, theirs, work / theirs, fmt::format("we are {:.2f}x as fast", theirs / ours));
  }
}

// Figures of one precision: rounds over the same batches, ours before and after the peer's so that all see the same machine.
json rounds_bench(const TaskOptions& options, const std::string& arguments, DType dtype, const std::vector<Batch>& batches) {
  const std::string name(name_of(dtype));
  const auto count = static_cast<std::int64_t>(batches.size());
  const double samples = samples_of(batches);
  Rounds rounds;
  measure(options, dtype, count, rounds);
  std::vector<json> peers;
  if (peers_enabled()) {
    peers = run_peer("torch_task.py", fmt::format("{} --dtypes {} --rounds {}", arguments, name, options.rounds));
    measure(options, dtype, count, rounds);
  }
  const double ms = 1e3 * median(rounds.seconds) / static_cast<double>(count), per_ms = samples / static_cast<double>(count);
  print_row("ours", name, ms, 1e3 * per_ms / ms);
  print_peers(peers, name, "ms_per_update", ms, 1e3 * per_ms);
  return {{"ms_per_update", ms}, {"per_s", 1e3 * per_ms / ms}, {"first_loss", rounds.first}, {"last_loss", rounds.last}, {"peers", peers}};
}

// The same of one training from the first update to the last.
json whole_bench(const TaskOptions& options, const std::string& arguments, DType dtype, std::int64_t updates) {
  const std::string name(name_of(dtype));
  auto [taken, measured] = train_whole(options, dtype, updates);
  std::vector<json> peers;
  if (peers_enabled()) {
    peers = run_peer("torch_task.py",
                     fmt::format("{} --dtypes {} --text '{}' --updates {} --warmup {}", arguments, name, options.text, updates, warmup));
    taken = 0.5 * (taken + train_whole(options, dtype, updates).first);
  }
  print_row("ours", name, taken, static_cast<double>(updates) / taken, "validation " + describe(measured));
  print_peers(peers, name, "seconds", taken, static_cast<double>(updates));
  return {{"seconds", taken}, {"validation", describe(measured)}, {"peers", peers}};
}

}  // namespace

TaskStep::TaskStep(Context& ctx, Task& task, const AdamOptions& options)
    : ctx_(ctx), task_(task), adam_(ctx, task.parameters(), options, decay_matrices) {}

float TaskStep::run(const Batch& batch, float lr) {
  ctx_.set_training(true);
  ctx_.random().begin_step(++step_);
  const Tensor loss = task_.loss(ctx_, batch);
  const float value = loss.item();
  backward(ctx_, loss);
  adam_.step(ctx_, lr, clip_norm);
  adam_.zero_gradients();
  return value;
}

void task_bench(const TaskOptions& options) {
  const BenchTask about = describe_task(options.task);
  const std::int64_t updates = options.updates > 0 ? options.updates : options.whole ? 2000 : about.updates;
  if (options.rounds < 1) fail("bench", "{} rounds: expected at least one", options.rounds);
  if (options.whole && (options.task != "lm" || options.text.empty())) fail("bench", "--whole is for the task lm, and needs --text FILE");

  // The weights that both sides begin with, and the batches.
  const TemporaryFolder folder;
  std::vector<Batch> batches;
  {
    Ours ours(options, DType::float32);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(options.whole ? 1 : updates, ours.batches); ++i)
      batches.push_back(ours.task->prepare(i));
    if (batches.empty()) fail("bench", "there is no data: the epoch has no batches");
    ours.task->save(folder.path());
  }
  const auto batches_path = folder.path() / "batches.safetensors";
  std::printf("Training: %s, %d threads\n\n", std::string(about.title).c_str(), options.threads);
  const double samples = samples_of(batches);
  const std::string arguments = fmt::format(
      "--model '{}' --batches '{}' --threads {} --modes {} --samples {} --lr {} --beta2 {} --weight-decay {}", folder.path().string(),
      batches_path.string(), options.threads, options.peer_modes, samples, peak_lr, adam.beta2, adam.weight_decay);
  if (peers_enabled()) {
    write_batches(batches, batches_path);
    check_peer(options, arguments, folder.path(), batches.front());
  }

  std::printf("%-34s %-9s %12s %12s\n", "", "precision", options.whole ? "seconds" : "ms/update",
              options.whole ? "updates/s" : fmt::format("{}/s", about.units).c_str());
  json report{{"task", options.task},
              {"threads", options.threads},
              {"units", about.units},
              {"samples", samples},
              {"updates", options.whole ? updates : static_cast<std::int64_t>(batches.size())},
              {"build", TRANSFORMER_BUILD_TYPE}};
  for (const DType dtype : {DType::float32, DType::bfloat16})
    report[std::string(name_of(dtype))] = options.whole ? whole_bench(options, arguments, dtype, updates)
                                                        : rounds_bench(options, arguments, dtype, batches);
  print_peers_hint();
  print_report(report, options.json);
}

}  // namespace transformer::bench
