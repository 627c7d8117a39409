// transformer translate: lines in, translations out, in order.
#include <memory>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/input_lines.h"
#include "cli/search_flags.h"
#include "cli/verbs.h"
#include "io/shared/blank.h"
#include "io/shared/output_file.h"
#include "transformer/predict/translator.h"

namespace transformer::cli {
namespace {

struct TranslateVerb {
  std::string model = {}, adapter = {};
  std::vector<std::string> text = {};
  std::string input = {}, output = {};
  std::string prefix = {};

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("text", self.text, "translate this instead of standard input");
    field("input", self.input, "translate the lines of this file, plain or gzip");
    field("output", self.output, "write to this file instead of standard output; .gz is compressed");
    field("prefix", self.prefix, "text put before every line, for models that are told what to do (T5: \"translate English to German: \")");
  }
};

void translate(const TranslateVerb& config, const Languages& languages, const SearchFlags& search, const LineOptions& lines,
               const ComputeConfig& compute) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  InputLines input(config.text, config.input);
  keep_apart({{"MODEL", config.model}, {"--adapter", config.adapter}, {"--input", config.text.empty() ? or_standard(config.input) : ""}},
             {{"--output", or_standard(config.output)}});
  const GenerationConfig generation = search.config();
  Context ctx(compute.context());
  const Translator translator = Translator::load(ctx, config.model, languages, config.adapter);

  LineSource next = input.next();
  if (!config.prefix.empty())  // an empty line stays one
    next = [lines = next, prefix = config.prefix](std::string& line) {
      if (!lines(line)) return false;
      if (!is_blank(line)) line.insert(0, prefix);
      return true;
    };

  OutputFile out(config.output);
  TextReport report = translator.translate_lines(ctx, next, out.stream(), generation, search.options, lines, input.ready());
  out.commit();
  report.truncated += input.cut();
  if (const std::string summary = report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
}

}  // namespace

void add_translate(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("translate", "translate the lines of standard input with a trained model");
  auto config = std::make_shared<TranslateVerb>();
  auto languages = std::make_shared<Languages>();
  auto options = std::make_shared<SearchFlags>();
  auto lines = std::make_shared<LineOptions>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *languages, *options, *lines, *compute);
  verb->callback([=] { translate(*config, *languages, *options, *lines, *compute); });
}

}  // namespace transformer::cli
