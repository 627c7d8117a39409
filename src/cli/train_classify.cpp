// transformer train classify: an encoder that tells what texts are.
#include <fmt/ranges.h>

#include <cmath>
#include <memory>

#include "cli/train.h"
#include "cli/train_batch.h"
#include "cli/train_encoder.h"
#include "toys/shared/labels.h"
#include "toys/shared/languages.h"
#include "transformer/train/classify.h"

namespace transformer::cli {
namespace {

struct TrainClassify {
  static constexpr BatchSetting batches{ClassifyConfig::usual_max_tokens, "/data/max_tokens", "tokens", "--max-tokens"};

  EncoderStart start;
  ClassifyConfig data;
  ToyConfig toy;
  EncoderConfig model;
  EncoderVocabulary vocabulary;
  TrainConfig training = encoder_training("");  // the metric that suits the labels
  ComputeConfig compute;
  SeedConfig seed;

  // A made-up language (toys/shared/languages.h, toys/shared/labels.h) instead of files: brackets for classes, switches for several labels,
  // shopping for numbers.
  void make_toy() {
    if (toy.toy == 0) return;
    if (!data.data.empty() || !data.valid.empty() || !data.test.empty())
      throw CLI::ValidationError("--toy makes the texts: leave --data, --valid and --test out");
    std::vector<std::string> lines;
    if (data.problem_type == ProblemType::multi_label) {
      if (data.columns.label_separator.empty()) data.columns.label_separator = ",";
      for (const SwitchText& t : switch_texts(toy.texts())) lines.push_back(fmt::format("{}\t{}\n", t.text, fmt::join(t.on, ",")));
    } else if (data.problem_type == ProblemType::regression) {
      for (const ShoppingText& t : shopping_texts(toy.texts())) lines.push_back(fmt::format("{}\t{}\n", t.text, t.total));
    } else {
      for (const BracketText& t : bracket_texts(toy.texts()))
        lines.push_back(fmt::format("{}\t{}\n", t.text, t.balanced ? "balanced" : "unbalanced"));
    }
    const auto file = [&](const char* name, std::int64_t begin, std::int64_t end) {
      return write_toy(training.save_dir, name, fmt::format("{}", fmt::join(lines.begin() + begin, lines.begin() + end, "")));
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
    const bool chosen = data.problem_type != ProblemType::by_labels;
    if (task.problem() == ProblemType::regression) {
      const auto [mean, deviation] = task.spread();
      const std::size_t width = task.classes().size();
      fmt::print(stderr, "training: {} texts with {} each (mean {:.4g}, deviation {:.4g})\n", task.training_texts(),
                 width == 1 ? "a number" : fmt::format("{} numbers", width), mean, deviation);
      if (!chosen)
        fmt::print(stderr, "the labels are numbers: they are learned as such (--problem-type single_label makes classes of them)\n");
      if (deviation > 10.0 || std::abs(mean) > 10.0 || (deviation > 0.0 && deviation < 0.1))
        fmt::print(stderr, "numbers between about -3 and 3 are learned faster: it helps to scale these\n");
    } else {
      const bool several = task.problem() == ProblemType::multi_label;
      std::vector<std::string> classes;
      for (std::size_t c = 0; c < task.classes().size() && c < 10; ++c)
        classes.push_back(fmt::format("{} {}", task.classes()[c], task.samples()[c]));
      if (task.classes().size() > classes.size()) classes.emplace_back("…");
      fmt::print(stderr, "training: {} texts {} {} {} ({})\n", task.training_texts(), several ? "with any of" : "of", task.classes().size(),
                 several ? "labels" : "classes", fmt::join(classes, ", "));
    }
    if (task.validation_texts() > 0) fmt::print(stderr, "validation: {} texts\n", task.validation_texts());
    say(task.report());
  }

  void run(const CLI::App& verb) {
    const EncoderStart further = encoder_start(verb, start, model, vocabulary);
    check_lora(start.from, start.lora);
    check(training);
    make_toy();
    data.max_tokens = batches.of(data.max_tokens, training);
    Context ctx(compute.context(static_cast<std::uint64_t>(seed.seed)));
    ClassifyTask task = this->task(ctx, further);
    say_what_was_read(task);
    say_model(task);
    batches.say(data.max_tokens, task);
    use_best_metric(training, task);
    if (train(ctx, task, training, start.lora).end == TrainResult::End::interrupted) return;
    task.load(ctx, training.save_dir);
    if (const auto result = task.test(ctx)) say_how_good(training.save_dir, data.valid, data.test, *result, "texts");
  }
};

}  // namespace

void add_train_classify(CLI::App& verb) {
  CLI::App* classify = verb.add_subcommand(
      "classify", "classes, labels or numbers of texts, learned from texts that have them; with --from, by a ready encoder");
  auto settings = std::make_shared<TrainClassify>();
  add_settings(*classify, settings->start, settings->data, settings->toy, settings->model, settings->vocabulary, settings->training,
               settings->compute, settings->seed);
  classify->callback([settings, classify] { settings->run(*classify); });
}

}  // namespace transformer::cli
