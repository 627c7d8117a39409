// transformer train TASK: from data to a trained model. Stopping it at any moment loses nothing; the same command goes on.
#include "cli/train.h"

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>

#include "cli/stop.h"
#include "cli/verbs.h"
#include "train/shared/starting_folder.h"

namespace transformer::cli {
namespace {

void say_how_it_ended(const TrainConfig& config, const TrainResult& result) {
  if (result.end == TrainResult::End::interrupted) {
    fmt::print(stderr, "stopped after step {}; everything is saved. Run the same command again to go on.\n", result.step);
    return;
  }
  const bool patience = result.end == TrainResult::End::no_improvement;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print(stderr, "finished after {} steps, {} epochs{}; at most {} MiB of memory\n", result.step, result.epoch,
             patience ? ": no better validation for a while" : "", used.ru_maxrss / 1024);
  if (result.begun_at == result.step)
    fmt::print(stderr, "There was nothing left to do: this run was finished before. To train on, raise {}.\n",
               patience ? "--patience" : "--max-epoch or --max-update");
  if (!result.best.empty()) fmt::print(stderr, "best model: {}, step {}, {}\n", config.save_dir, result.best_step, describe(result.best));
  if (!result.average.empty()) fmt::print(stderr, "averaged model: {}/average, {}\n", config.save_dir, describe(result.average));
}

}  // namespace

ContextOptions context_of(const ComputeConfig& compute, const SeedConfig& seed) {
  start_devices(seed.devices);
  return compute.context(static_cast<std::uint64_t>(seed.seed));
}

TrainResult train(Context& ctx, Task& task, const TrainConfig& config, const LoraConfig& lora, const std::function<void()>& then) {
  Trainer trainer(ctx, task, config, stop_on_signals());
  const TrainResult result = trainer.run();
  say_how_it_ended(config, result);
  if (result.end == TrainResult::End::interrupted) return result;
  if (then) then();
  if (!lora.merge) return result;
  if (!first_process()) return result;
  const std::filesystem::path merged = std::filesystem::path(config.save_dir) / "merged";
  write_merged(ctx, model_folder(config.save_dir), merged);
  fmt::print(stderr, "merged model: {}\n", merged.string());
  return result;
}

void check_lora(const std::string& from, const LoraConfig& lora) {
  const bool given = to_json(lora) != to_json(LoraConfig{});
  if (given && from.empty())
    throw CLI::ValidationError("--lora-rank, --lora-targets and the like are for a ready model that is trained further: give --from");
  if (given && !lora.wanted() && model_folder(from).adapter.empty())
    throw CLI::ValidationError("settings of an adapter are given, but none is trained: give --lora-rank (8 is usual), or --adapter");
}

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

bool flag_given(const CLI::App& verb, const std::string& flag) {
  const CLI::Option* option = verb.get_option_no_throw(flag);
  return option != nullptr && option->count() > 0;
}

void refuse_with_from(const CLI::App& verb, const std::string& from, std::vector<std::string> given,
                      const std::vector<std::string>& others) {
  for (std::string& field : given) field = flag_of(field);
  for (const std::string& other : others)
    if (flag_given(verb, flag_of(other))) given.push_back(flag_of(other));
  if (!given.empty())
    throw CLI::ValidationError(fmt::format("{}: the model and its vocabulary are those of --from {}", fmt::join(given, ", "), from));
}

void add_train(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("train", "train a model on your own data");
  verb->require_subcommand(1);
  add_train_classify(*verb);
  add_train_forecast(*verb);
  add_train_lm(*verb);
  add_train_image(*verb);
  add_train_mlm(*verb);
  add_train_tag(*verb);
  add_train_translate(*verb);
}

}  // namespace transformer::cli
