// transformer train classify: an encoder that tells what texts are.
#include <fmt/ranges.h>

#include <cmath>

#include "cli/train_labels.h"
#include "toys/shared/labels.h"
#include "toys/shared/languages.h"
#include "transformer/train/classify.h"

namespace transformer::cli {
namespace {

struct TrainClassify : LabelTraining<TrainClassify, ClassifyConfig, ClassifyTask> {
  static constexpr const char *file = ".tsv", *samples = "texts";

  // A made-up language (toys/shared/languages.h, toys/shared/labels.h): brackets for classes, switches for several labels, shopping for
  // numbers.
  std::vector<std::string> made_up() {
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
    return lines;
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
};

}  // namespace

void add_train_classify(CLI::App& verb) {
  TrainClassify::add(verb, "classify",
                     "classes, labels or numbers of texts, learned from texts that have them; with --from, by a ready encoder");
}

}  // namespace transformer::cli
