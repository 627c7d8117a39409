// transformer train TASK: from data to a trained model. Stopping it at any moment loses nothing; the same command goes on.
#include "cli/train.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/stop.h"
#include "cli/verbs.h"

namespace transformer::cli {
namespace {

void say_how_it_ended(const TrainConfig& config, const TrainResult& result) {
  if (result.end == TrainResult::End::interrupted) {
    fmt::print(stderr, "stopped after step {}; everything is saved. Run the same command again to go on.\n", result.step);
    return;
  }
  const bool patience = result.end == TrainResult::End::no_improvement;
  fmt::print(stderr, "finished after {} steps, {} epochs{}\n", result.step, result.epoch,
             patience ? ": no better validation for a while" : "");
  if (result.begun_at == result.step)
    fmt::print(stderr, "There was nothing left to do: this run was finished before. To train on, raise {}.\n",
               patience ? "--patience" : "--max-epoch or --max-update");
  if (!result.best.empty()) fmt::print(stderr, "best model: {}, step {}, {}\n", config.save_dir, result.best_step, describe(result.best));
  if (!result.average.empty()) fmt::print(stderr, "averaged model: {}/average, {}\n", config.save_dir, describe(result.average));
}

}  // namespace

TrainResult train(Context& ctx, Task& task, const TrainConfig& config) {
  Trainer trainer(ctx, task, config, stop_on_signals());
  const TrainResult result = trainer.run();
  say_how_it_ended(config, result);
  return result;
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
