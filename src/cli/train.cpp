// transformer train TASK: from data to a trained model. Stopping it at any moment loses nothing; the same command goes on.
#include <fmt/ranges.h>

#include <algorithm>
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
  FineTuning start;
  TranslateConfig data;
  TrainConfig training;
  ComputeConfig compute;
  SeedConfig seed;

  // With --from: the dropout that the user has set, and nothing that would make another model of the folder's. A file that
  // --dump-config wrote has all settings: there, those that differ from the defaults are set.
  FineTuning fine_tuning(const CLI::App& verb) const {
    auto flag = [](std::string name) {
      std::replace(name.begin(), name.end(), '_', '-');
      return "--" + name;
    };
    auto given = [&](const std::string& name) {
      const CLI::Option* option = verb.get_option_no_throw(name);
      return option != nullptr && option->count() > 0;
    };
    std::vector<std::string> refused;
    if (given("--preset")) refused.emplace_back("--preset");
    FineTuning out = start;
    out.label_smoothing = model.label_smoothing;
    const nlohmann::json settings = to_json(model), defaults = to_json(TransformerConfig{});
    for (const auto& [name, value] : settings.items()) {
      if (!given(flag(name)) && value == defaults.at(name)) continue;
      if (name == "dropout") out.dropout = model.dropout;
      else if (name == "attention_dropout") out.attention_dropout = model.attention_dropout;
      else if (name == "ffn_dropout") out.ffn_dropout = model.ffn_dropout;
      else if (name != "label_smoothing") refused.push_back(flag(name));
    }
    for (const char* name : {"arch", "tokenizer", "subwords", "vocab_size", "separate_vocabularies", "character_coverage", "normalization"})
      if (given(flag(name))) refused.push_back(flag(name));
    if (!refused.empty())
      throw CLI::ValidationError(
          fmt::format("{}: the model and its vocabulary are those of --from {}", fmt::join(refused, ", "), start.from));
    return out;
  }

  TranslateTask task(Context& ctx, const FineTuning& fine_tuning) const {
    if (!start.from.empty()) return {ctx, data, fine_tuning};
    return {ctx, data, model, latest_checkpoint(training.save_dir)};
  }

  void run(const CLI::App& verb) const {
    const FineTuning further = start.from.empty() ? start : fine_tuning(verb);
    check(training);
    Context ctx(compute.context(static_cast<std::uint64_t>(seed.seed)));
    TranslateTask task = this->task(ctx, further);
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

  CLI::App* translate = verb->add_subcommand(
      "translate", "an encoder-decoder from two text files, sentence by sentence; with --from, a ready one further");
  auto settings = std::make_shared<Translate>();
  add_settings(*translate, settings->start, settings->data,
               part(settings->model, {.without = {"src_vocab_size", "tgt_vocab_size", "pad_id"}}), settings->training, settings->compute,
               settings->seed);
  translate->callback([settings, translate] { settings->run(*translate); });
}

}  // namespace transformer::cli
