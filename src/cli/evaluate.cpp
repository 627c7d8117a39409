// transformer evaluate: how good a model is on data it has not seen, whatever its task; each task but translation in a file of its own.
// Here: BLEU and chrF of translations, of a file of them or of those that a model makes.
#include <fmt/ranges.h>

#include <memory>

#include "cli/compute.h"
#include "cli/evaluate_images.h"
#include "cli/evaluate_labels.h"
#include "cli/evaluate_series.h"
#include "cli/evaluate_text.h"
#include "cli/flags.h"
#include "cli/search_flags.h"
#include "cli/verbs.h"
#include "io/shared/utf8.h"
#include "transformer/io/lines.h"
#include "transformer/predict/translator.h"
#include "transformer/text/bleu.h"
#include "transformer/text/chrf.h"

namespace transformer::cli {
namespace {

struct EvaluateConfig {
  std::string model = {}, adapter = {};
  std::string source = {};
  std::string hypothesis = "-";
  std::vector<std::string> reference = {};
  bool chrf = false;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("source", self.source, "with MODEL: the text to translate, one sentence per line");
    field("hypothesis", self.hypothesis, "without MODEL: translations, one per line; - is standard input");
    field("reference", self.reference, "what they should be, one per line; several files are several right answers");
    field("chrf", self.chrf, "chrF beside BLEU");
  }
};

std::vector<std::string> read_all(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  std::int64_t replaced = 0;
  for (std::string line; reader.next(line);) lines.push_back(is_valid_utf8(line) ? line : sanitize_utf8(line, replaced));
  if (replaced > 0) fmt::print(stderr, "transformer: {}: {} sequences of bytes that are not UTF-8 became U+FFFD\n", path, replaced);
  return lines;
}

std::vector<std::string> translations(const EvaluateConfig& config, const Languages& languages, const SearchFlags& search,
                                      const ComputeConfig& compute) {
  if (config.model.empty()) {
    if (!config.source.empty()) throw CLI::ValidationError("--source is what a MODEL shall translate, but there is none");
    return read_all(config.hypothesis);
  }
  if (config.source.empty()) throw CLI::RequiredError("--source");
  const std::vector<std::string> sources = read_all(config.source);
  Context ctx(compute.context());
  return Translator::load(ctx, config.model, languages, config.adapter).translate(ctx, sources, search.config(), search.options);
}

void evaluate(const EvaluateConfig& config, const Languages& languages, const BleuOptions& bleu, ChrfOptions chrf,
              const SearchFlags& search, const ComputeConfig& compute) {
  if (config.reference.empty()) throw CLI::RequiredError("--reference");
  const std::vector<std::string> hypotheses = translations(config, languages, search, compute);
  const std::string origin = config.model.empty() ? (config.hypothesis == "-" ? "standard input" : config.hypothesis) : config.source;
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : config.reference) {
    references.push_back(read_all(path));
    if (references.back().size() != hypotheses.size())
      fail(path, "has {} lines, but {} has {}: each line must be the reference of the same line there", references.back().size(), origin,
           hypotheses.size());
  }
  if (hypotheses.empty()) fail(origin, "there is nothing to evaluate: no lines");
  const auto streams = static_cast<std::int64_t>(references.size());
  std::string out = describe(corpus_bleu(hypotheses, references, bleu), bleu, streams) + "\n";
  chrf.lowercase = bleu.lowercase;
  if (config.chrf) out += describe_chrf(corpus_chrf(hypotheses, references, chrf), chrf, streams) + "\n";
  fmt::print("{}", out);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand(
      "evaluate",
      "how good a model is: BLEU and chrF of translations as sacreBLEU computes them, perplexity, accuracy, errors of forecasts");
  auto config = std::make_shared<EvaluateConfig>();
  auto bleu = std::make_shared<BleuOptions>();
  auto chrf = std::make_shared<ChrfOptions>();
  auto languages = std::make_shared<Languages>();
  auto search = std::make_shared<SearchFlags>();
  auto images = std::make_shared<EvaluateImages>();
  auto labels = std::make_shared<EvaluateLabels>();
  auto series = std::make_shared<EvaluateSeries>();
  auto text = std::make_shared<EvaluateText>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model,
                   "a model's folder; a translator translates --source, and that is judged; without MODEL, --hypothesis is judged");
  add_settings(*verb, *config, *languages, *bleu, part(*chrf, {.prefix = "chrf", .without = {"lowercase"}}),
               part(*search, {.without = {"n_best", "alignment", "alignment_layer"}}),
               part(*series, {.without = {"header", "delimiter"}}),  // those of --data
               *images, *labels, *text, *compute);
  verb->callback([=] {
    std::vector<std::string> given;
    for (const auto& [asked, flags] : {std::pair{images->asked(), "--images, --idx or --cifar"},
                                       {labels->asked(), "--data"},
                                       {text->asked(), "--text or --bin"},
                                       {!series->csv.empty(), "--csv"},
                                       {!config->source.empty() || !config->reference.empty(), "--source or --reference"}})
      if (asked) given.emplace_back(flags);
    if (given.size() > 1)
      throw CLI::ValidationError(
          fmt::format("data of two kinds are given, by {}, but a model is of one: leave the others out", fmt::join(given, " and by ")));
    if (images->asked()) evaluate_images(config->model, config->adapter, *images, *compute);
    else if (labels->asked()) evaluate_labels(config->model, config->adapter, *labels, *compute);
    else if (text->asked()) evaluate_text(config->model, config->adapter, *text, *compute);
    else if (!series->csv.empty()) {
      series->table.header = labels->columns.header;
      series->table.delimiter = labels->columns.delimiter;
      evaluate_series(config->model, config->adapter, *series, *compute);
    } else evaluate(*config, *languages, *bleu, *chrf, *search, *compute);
  });
}

}  // namespace transformer::cli
