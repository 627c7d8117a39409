// transformer train classify: an encoder that tells what texts are.
#include <fmt/ranges.h>

#include <memory>

#include "cli/train.h"
#include "cli/train_encoder.h"
#include "transformer/io/json.h"
#include "transformer/text/toy_languages.h"
#include "transformer/train/classify.h"

namespace transformer::cli {
namespace {

namespace fs = std::filesystem;

struct Classify {
  EncoderStart start;
  ClassifyConfig data;
  ToyConfig toy;
  EncoderConfig model;
  EncoderVocabulary vocabulary;
  TrainConfig training = encoder_training("accuracy");
  ComputeConfig compute;
  SeedConfig seed;

  // A bracket language (text/toy_languages.h) instead of files.
  void make_toy() {
    if (toy.toy == 0) return;
    if (!data.data.empty() || !data.valid.empty() || !data.test.empty())
      throw CLI::ValidationError("--toy makes the texts: leave --data, --valid and --test out");
    const auto all = bracket_texts(toy.texts());
    const auto file = [&](const char* name, std::int64_t begin, std::int64_t end) {
      std::string text;
      for (std::int64_t i = begin; i < end; ++i) {
        const BracketText& t = all[static_cast<std::size_t>(i)];
        text += fmt::format("{}\t{}\n", t.text, t.balanced ? "balanced" : "unbalanced");
      }
      return write_toy(training.save_dir, name, text);
    };
    data.data = file("train.tsv", 0, toy.training());
    data.valid = file("valid.tsv", toy.training(), toy.validation());
    data.test = file("test.tsv", toy.validation(), toy.texts());
  }

  ClassifyTask task(Context& ctx, const EncoderStart& further) const {
    if (!start.from.empty()) return {ctx, data, further};
    return {ctx, data, model, vocabulary, latest_checkpoint(training.save_dir)};
  }

  void say_what_was_read(const ClassifyTask& task) const {
    std::vector<std::string> classes;
    for (std::size_t c = 0; c < task.classes().size() && c < 10; ++c)
      classes.push_back(fmt::format("{} {}", task.classes()[c], task.samples()[c]));
    if (task.classes().size() > classes.size()) classes.emplace_back("…");
    fmt::print(stderr, "training: {} texts of {} classes ({})\n", task.training_texts(), task.classes().size(), fmt::join(classes, ", "));
    if (task.validation_texts() > 0) fmt::print(stderr, "validation: {} texts\n", task.validation_texts());
    say(task.report());
  }

  // The best model's figures, on the screen and beside the metrics.
  void say_how_good(Context& ctx, ClassifyTask& task) const {
    task.load(ctx, training.save_dir);
    const std::optional<Evaluation> result = task.test(ctx);
    if (!result) return;
    const std::string name = data.test.empty() ? "valid" : "test", file = data.test.empty() ? data.valid : data.test;
    fmt::print("{}: {}", file, result->matrix.table("texts"));
    nlohmann::json report = result->matrix.to_json();
    report["loss"] = result->loss;
    report["file"] = file;
    write_json(fs::path(training.save_dir) / (name + "_report.json"), report);
  }

  void run(const CLI::App& verb) {
    const EncoderStart further = encoder_start(verb, start, model, vocabulary);
    check_lora(start.from, start.lora);
    check(training);
    make_toy();
    Context ctx(compute.context(static_cast<std::uint64_t>(seed.seed)));
    ClassifyTask task = this->task(ctx, further);
    say_what_was_read(task);
    say_model(task);
    if (train(ctx, task, training, start.lora).end != TrainResult::End::interrupted) say_how_good(ctx, task);
  }
};

}  // namespace

void add_train_classify(CLI::App& verb) {
  CLI::App* classify = verb.add_subcommand("classify",
                                           "a classifier of texts from texts with their classes; with --from, of a ready encoder");
  auto settings = std::make_shared<Classify>();
  add_settings(*classify, settings->start, settings->data, settings->toy, settings->model, settings->vocabulary, settings->training,
               settings->compute, settings->seed);
  classify->callback([settings, classify] { settings->run(*classify); });
}

}  // namespace transformer::cli
