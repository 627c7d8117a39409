// transformer evaluate: how good translations are, by BLEU and chrF.
#include <memory>

#include "cli/flags.h"
#include "cli/verbs.h"
#include "transformer/text/bleu.h"
#include "transformer/text/chrf.h"
#include "transformer/text/lines.h"
#include "transformer/text/utf8.h"

namespace transformer::cli {
namespace {

struct EvaluateConfig {
  std::string hypothesis = "-";
  std::vector<std::string> reference = {};
  bool chrf = false;

  static void visit(auto& self, auto&& field) {
    field("hypothesis", self.hypothesis, "translations, one a line; - is standard input");
    field("reference", self.reference, "what they should be, one a line; several files are several right answers");
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

void evaluate(const EvaluateConfig& config, const BleuOptions& bleu, ChrfOptions chrf) {
  if (config.reference.empty()) throw CLI::RequiredError("--reference");
  const std::vector<std::string> hypotheses = read_all(config.hypothesis);
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : config.reference) {
    references.push_back(read_all(path));
    if (references.back().size() != hypotheses.size())
      fail(path, "has {} lines, but {} has {}: each line must be the reference of the same line there", references.back().size(),
           config.hypothesis == "-" ? "standard input" : config.hypothesis, hypotheses.size());
  }
  if (hypotheses.empty()) fail(config.hypothesis, "there is nothing to evaluate: no lines");
  const auto streams = static_cast<std::int64_t>(references.size());
  fmt::print("{}\n", describe(corpus_bleu(hypotheses, references, bleu), bleu, streams));
  chrf.lowercase = bleu.lowercase;
  if (config.chrf) fmt::print("{}\n", describe_chrf(corpus_chrf(hypotheses, references, chrf), chrf, streams));
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("evaluate", "BLEU and chrF of translations, as sacreBLEU computes them");
  auto config = std::make_shared<EvaluateConfig>();
  auto bleu = std::make_shared<BleuOptions>();
  auto chrf = std::make_shared<ChrfOptions>();
  add_settings(*verb, *config, *bleu, part(*chrf, {.prefix = "chrf", .without = {"lowercase"}}));
  verb->callback([=] { evaluate(*config, *bleu, *chrf); });
}

}  // namespace transformer::cli
