// transformer train TASK: from data to a trained model. Stopping it at any moment loses nothing; the same command goes on.
#include <memory>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/stop.h"
#include "cli/verbs.h"
#include "transformer/models/presets.h"
#include "transformer/train/trainer.h"
#include "transformer/train/translate.h"

namespace transformer::cli {
namespace {

struct SeedConfig {
  std::int64_t seed = 1;
  static void visit(auto& self, auto&& field) { field("seed", self.seed, "of all random choices: weights, order of the data, dropout"); }
};

void say_what_was_read(const char* what, const PairReport& report) {
  if (report.total == 0) return;
  fmt::print(stderr, "{}: {} pairs", what, report.kept());
  if (report.kept() < report.total)
    fmt::print(stderr, "; left out: {} empty, {} too long, {} with too different lengths", report.empty, report.too_long,
               report.unbalanced);
  if (report.invalid_utf8 > 0) fmt::print(stderr, "; {} invalid UTF-8 sequences replaced", report.invalid_utf8);
  fmt::print(stderr, "\n");
}

void say_how_it_ended(const TrainConfig& config, const TrainResult& result) {
  if (result.end == TrainResult::End::interrupted) {
    fmt::print(stderr, "stopped after step {}; everything is saved. Run the same command again to go on.\n", result.step);
    return;
  }
  const bool patience = result.end == TrainResult::End::no_improvement;
  fmt::print(stderr, "finished after {} steps, {} epochs{}\n", result.step, result.epoch,
             patience ? ": no better validation for a while" : "");
  if (!result.best.empty()) fmt::print(stderr, "best model: {}, step {}, {}\n", config.save_dir, result.best_step, describe(result.best));
  if (!result.average.empty()) fmt::print(stderr, "averaged model: {}/average, {}\n", config.save_dir, describe(result.average));
}

void train(Context& ctx, Task& task, const TrainConfig& config) {
  Trainer trainer(ctx, task, config, stop_on_signals());
  say_how_it_ended(config, trainer.run());
}

struct Translate {
  TransformerConfig model;
  TranslateConfig data;
  TrainConfig training;
  ComputeConfig compute;
  SeedConfig seed;

  void run() const {
    check(training);
    Context ctx(compute.context(static_cast<std::uint64_t>(seed.seed)));
    TranslateTask task(ctx, data, model, latest_checkpoint(training.save_dir));
    say_what_was_read("training", task.training_report());
    say_what_was_read("validation", task.validation_report());
    fmt::print(stderr, "model: {} parameters, vocabulary {}, layout {}\n", count(task.parameters()), task.tokenizers().target->size(),
               task.layout());
    train(ctx, task, training);
  }
};

}  // namespace

void add_train(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("train", "train a model on your own data");
  verb->require_subcommand(1);

  CLI::App* translate = verb->add_subcommand("translate", "an encoder-decoder from two text files, sentence by sentence");
  auto settings = std::make_shared<Translate>();
  add_settings(*translate, settings->data, part(settings->model, {.without = {"src_vocab_size", "tgt_vocab_size", "pad_id"}}),
               settings->training, settings->compute, settings->seed);
  translate->callback([settings] { settings->run(); });
}

}  // namespace transformer::cli
