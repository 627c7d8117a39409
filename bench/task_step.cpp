#include "task_step.h"

#include <cmath>
#include <cstdio>

#include "io/shared/prefetch.h"
#include "measure.h"
#include "peers.h"
#include "transformer/io/safetensors.h"
#include "transformer/train/schedule.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

// Those of nanoGPT, but for a whole training the learning rate of recipes/shakespeare-char.toml; the time of an update does not depend
// on them.
constexpr float peak_lr = 1e-3F, whole_lr = 4e-3F, clip_norm = 1.0F;
constexpr AdamOptions adam{.beta1 = 0.9F, .beta2 = 0.99F, .eps = 1e-8F, .weight_decay = 0.1F};
constexpr std::int64_t warmup = 100;

struct Setting {
  TaskOptions options;
  std::string data;        // what is trained on
  std::int64_t count = 0;  // batches of a round, or updates of the whole
  double samples = 0.0;    // of a round: tokens, images …
  std::string arguments;   // of the peer
};

struct Rounds {
  std::vector<double> seconds;     // of each round
  double first = 0.0, last = 0.0;  // mean loss of the first round, which only warms up, and of the last
};

// Passes over the first `count` batches, which the background thread makes anew each time.
void measure(const Setting& s, DType precision, Rounds& rounds) {
  BenchTask ours(s.options, s.data, precision);
  TaskStep step(ours.ctx, *ours.task, adam);
  Prefetcher<Batch> batches([&](std::int64_t i) { return ours.task->prepare(i % s.count); }, 0, s.count * (s.options.rounds + 1));
  for (int round = 0; round <= s.options.rounds; ++round) {
    double loss = 0.0;
    const double begin = seconds();
    for (std::int64_t i = 0; i < s.count; ++i) loss += step.run(*batches.next(), peak_lr);
    if (round > 0) rounds.seconds.push_back(seconds() - begin);
    (round == 0 ? rounds.first : rounds.last) = loss / static_cast<double>(s.count);
  }
  if (!(rounds.last < rounds.first))
    fail("bench", "the loss of {} batches went from {} to {}: this is not training", s.count, rounds.first, rounds.last);
}

// Seconds of a whole training, validation not among them; and what it measures at the end.
std::pair<double, Metrics> train_whole(const Setting& s, DType precision) {
  BenchTask ours(s.options, s.data, precision);
  TaskStep step(ours.ctx, *ours.task, adam);
  const Schedule schedule{.kind = Schedule::Kind::cosine, .peak = whole_lr, .warmup = warmup, .total = s.count, .floor = 1e-4F};
  const double begin = seconds();
  for (std::int64_t done = 0, epoch = 0; done < s.count; ++epoch) {
    const std::int64_t count = std::min(s.count - done, epoch == 0 ? ours.batches : ours.task->plan(epoch));
    Prefetcher<Batch> batches([&](std::int64_t i) { return ours.task->prepare(i); }, 0, count);
    while (const auto batch = batches.next()) step.run(*batch, schedule(++done));
  }
  const double taken = seconds() - begin;
  ours.ctx.set_training(false);
  const NoGradients no_gradients(ours.ctx);
  return {taken, ours.task->validate(ours.ctx)};
}

// Both sides compute the same: the loss of a batch and the norm of its gradient, in float32 without dropout.
void check_peer(const Setting& s) {
  BenchTask ours(s.options, s.data, DType::float32, false);
  TaskStep step(ours.ctx, *ours.task, adam);
  const double loss = step.run(ours.task->prepare(0), 0.0F), norm = step.gradient_norm();
  const json theirs = run_peer("torch_task.py", s.arguments + " --check").front();
  const auto differ = [](double a, double b, double tolerance) { return !(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b))); };
  const double loss_there = theirs.at("loss"), norm_there = theirs.at("gradient_norm");
  if (differ(loss, loss_there, 1e-4) || differ(norm, norm_there, 1e-3))
    fail("bench", "the two sides compute different things: loss {} here and {} there, norm of the gradient {} and {}", loss, loss_there,
         norm, norm_there);
  std::printf("The same batch on both sides: loss %.6f and %.6f, norm of the gradient %.6f and %.6f\n\n", loss, loss_there, norm,
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
json rounds_bench(const Setting& s, DType dtype) {
  const std::string name(name_of(dtype));
  Rounds rounds;
  measure(s, dtype, rounds);
  std::vector<json> peers;
  if (peers_enabled()) {
    peers = run_peer("torch_task.py", fmt::format("{} --dtypes {} --rounds {}", s.arguments, name, s.options.rounds));
    measure(s, dtype, rounds);
  }
  const double ms = 1e3 * median(rounds.seconds) / static_cast<double>(s.count), work = 1e3 * s.samples / static_cast<double>(s.count);
  print_row("ours", name, ms, work / ms);
  print_peers(peers, name, "ms_per_update", ms, work);
  return {{"ms_per_update", ms}, {"per_s", work / ms}, {"first_loss", rounds.first}, {"last_loss", rounds.last}, {"peers", peers}};
}

// The same of one training from the first update to the last.
json whole_bench(const Setting& s, DType dtype) {
  const std::string name(name_of(dtype));
  const auto [before, measured] = train_whole(s, dtype);
  std::vector<json> peers;
  double taken = before;
  if (peers_enabled()) {
    peers = run_peer("torch_task.py",
                     fmt::format("{} --dtypes {} --text '{}' --updates {} --warmup {}", s.arguments, name, s.data, s.count, warmup));
    taken = 0.5 * (before + train_whole(s, dtype).first);
  }
  print_row("ours", name, taken, static_cast<double>(s.count) / taken, "validation: " + describe(measured));
  print_peers(peers, name, "seconds", taken, static_cast<double>(s.count));
  return {{"seconds", taken}, {"validation", measured}, {"peers", peers}};
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
  gradient_norm_ = adam_.step(ctx_, lr, clip_norm);
  adam_.zero_gradients();
  return value;
}

std::string peer_arguments(const TaskOptions& options, const std::string& data, const std::filesystem::path& folder) {
  BenchTask ours(options, data, DType::float32);
  ours.task->save(folder);
  const std::int64_t count = options.whole ? 1
                                           : std::min(options.updates > 0 ? options.updates : kind_of(options.task).updates, ours.batches);
  double samples = 0.0;
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (std::int64_t i = 0; i < count; ++i) {
    samples += static_cast<double>(ours.task->prepare(i).tokens);
    for (auto& [name, tensor] : to_tensors(ours.ctx, ours.padded(i))) tensors.emplace_back(fmt::format("{}.{}", i, name), tensor);
  }
  const std::filesystem::path batches = folder / "batches.safetensors";
  save_safetensors(batches, tensors);
  return fmt::format("--model '{}' --batches '{}' --samples {} --lr {} --beta2 {} --weight-decay {}", folder.string(), batches.string(),
                     samples, options.whole ? whole_lr : peak_lr, adam.beta2, adam.weight_decay);
}

void task_bench(const TaskOptions& options) {
  const TaskKind& kind = kind_of(options.task);
  if (options.rounds < 1) fail("bench", "{} rounds: expected at least one", options.rounds);
  if (options.whole && options.task != "lm") fail("bench", "--whole is for the task lm");
  const TemporaryFolder folder;
  Setting s{.options = options, .data = options.data};
  if (s.data.empty()) s.data = folder.path() / kind.data, kind.make_data(s.data);
  s.count = options.updates > 0 ? options.updates : options.whole ? 2000 : kind.updates;

  {
    BenchTask ours(options, s.data, DType::float32);
    if (!options.whole) s.count = std::min(s.count, ours.batches);
    for (std::int64_t i = 0; i < s.count && !options.whole; ++i) s.samples += static_cast<double>(ours.task->prepare(i).tokens);
  }
  std::printf("Training: %s; %d threads\n\n", std::string(kind.title).c_str(), options.threads);
  if (peers_enabled()) {
    s.arguments = fmt::format("{} --threads {} --modes {}", peer_arguments(options, s.data, folder.path()), options.threads,
                              options.peer_modes);
    check_peer(s);
  }

  std::printf("%-34s %-9s %12s %12s\n", "", "precision", options.whole ? "seconds" : "ms/update",
              options.whole ? "updates/s" : fmt::format("{}/s", kind.units).c_str());
  json report{{"task", options.task}, {"threads", options.threads}, {"units", kind.units},
              {"samples", s.samples}, {"updates", s.count},         {"build", TRANSFORMER_BUILD_TYPE}};
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    if (options.precisions.find(name_of(dtype)) == std::string::npos) continue;
    report[std::string(name_of(dtype))] = options.whole ? whole_bench(s, dtype) : rounds_bench(s, dtype);
  }
  print_peers_hint();
  print_report(report, options.json);
}

}  // namespace transformer::bench
