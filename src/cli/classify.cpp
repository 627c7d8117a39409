// transformer classify: what texts, their tokens, or images are.
#include <algorithm>
#include <iostream>
#include <memory>

#include "cli/compute.h"
#include "cli/flags.h"
#include "cli/input_lines.h"
#include "cli/verbs.h"
#include "transformer/core/error.h"
#include "transformer/generate/classifier.h"

namespace transformer::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ClassifyConfig {
  std::string model = {}, adapter = {};
  std::vector<std::string> text = {}, image = {};
  std::string input = {};
  bool pairs = false;
  std::int64_t top_k = 1;
  bool json = false;
  std::int64_t chunk_lines = 4096;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("text", self.text, "classify this instead of the lines of standard input");
    field("input", self.input, "classify the lines of this file, plain or gzip");
    field("pairs", self.pairs, "a line is two texts with a tab between them: a question and an answer, two sentences");
    field("image", self.image, "PNG or JPEG files, for models of images");
    field("top_k", self.top_k, "labels given, the best first (0: all)");
    field("json", self.json, "a JSON object a line instead of label, tab, probability");
    field("chunk_lines", self.chunk_lines, "lines read before the first of them is written, if they are there");
  }
};

Json labels_json(const std::vector<Label>& labels) {
  Json list = Json::array();
  for (const Label& label : labels) list.push_back({{"label", label.name}, {"score", label.score}});
  return list;
}

void print_json(const Json& object) { std::cout << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n'; }

// label, tab, probability, and so on for the next best
void print_labels(const std::vector<Label>& labels, std::string line = {}) {
  for (const Label& label : labels) line += fmt::format("{}{}\t{:.6f}", line.empty() ? "" : "\t", label.name, label.score);
  std::cout << line << '\n';
}

void classify_images(Context& ctx, const Classifier& classifier, const ClassifyConfig& config) {
  for (const std::string& path : config.image) {  // one at a time: images are large, and a damaged one is named after the others
    const Image image = read_image(path);
    const auto labels = classifier.images(ctx, std::span(&image, 1), {.top_k = config.top_k}).front();
    if (config.json) print_json({{"image", path}, {"labels", labels_json(labels)}});
    else print_labels(labels, path);
  }
}

void classify_texts(Context& ctx, const Classifier& classifier, const std::vector<std::string>& texts, const ClassifyOptions& options,
                    bool json) {
  const auto all = classifier.texts(ctx, texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (json) print_json({{"text", texts[i]}, {"labels", labels_json(all[i])}});
    else print_labels(all[i]);
  }
}

// Lines of two texts, by their tab. Error names a line that has none or several.
void classify_pairs(Context& ctx, const Classifier& classifier, const std::vector<std::string>& lines, std::int64_t before,
                    const ClassifyOptions& options, bool json) {
  std::vector<std::string> first, second;
  for (const std::string& line : lines) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || line.find('\t', tab + 1) != std::string::npos)
      fail("classify", "text {} has {} tabs: with --pairs a line is two texts with one tab between them", before + std::ssize(first) + 1,
           std::count(line.begin(), line.end(), '\t'));
    first.push_back(line.substr(0, tab)), second.push_back(line.substr(tab + 1));
  }
  const auto all = classifier.pairs(ctx, first, second, options);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (json) print_json({{"text", first[i]}, {"second", second[i]}, {"labels", labels_json(all[i])}});
    else print_labels(all[i]);
  }
}

// A line a token, and an empty one after each text.
void classify_tokens(Context& ctx, const Classifier& classifier, const std::vector<std::string>& texts, const ClassifyOptions& options,
                     bool json) {
  const auto all = classifier.tokens(ctx, texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json tokens = Json::array();
    for (const TokenLabels& t : all[i]) {
      if (json) tokens.push_back({{"token", t.token}, {"begin", t.place.begin}, {"end", t.place.end}, {"labels", labels_json(t.labels)}});
      else print_labels(t.labels, t.token);
    }
    if (json) print_json({{"text", texts[i]}, {"tokens", tokens}});
    else std::cout << '\n';
  }
}

void classify(const ClassifyConfig& config, const ComputeConfig& compute) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  if (!config.image.empty() && (!config.text.empty() || !config.input.empty() || config.pairs))
    throw CLI::ValidationError("--image and --text, --input or --pairs exclude each other");
  Context ctx(compute.context());
  const Classifier classifier = Classifier::load(ctx, config.model, config.adapter);
  const bool images = classifier.kind() == Classifier::Kind::images;
  if (images == config.image.empty())
    throw CLI::ValidationError(images ? "the model classifies images: name them with --image" : "the model classifies text, not images");
  if (images) return classify_images(ctx, classifier, config);

  InputLines input(config.text, config.input);
  TextReport report;
  const ClassifyOptions options{.top_k = config.top_k, .report = &report};
  if (config.pairs && classifier.kind() != Classifier::Kind::texts)
    throw CLI::ValidationError("--pairs is for models that classify texts; this one labels their tokens");
  for (std::vector<std::string> texts; input.chunk(config.chunk_lines, texts);) {
    if (config.pairs) classify_pairs(ctx, classifier, texts, report.texts, options, config.json);
    else if (classifier.kind() == Classifier::Kind::tokens) classify_tokens(ctx, classifier, texts, options, config.json);
    else classify_texts(ctx, classifier, texts, options, config.json);
    std::cout.flush();
  }
  if (const std::string summary = report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
}

}  // namespace

void add_classify(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("classify", "labels of texts, of their tokens, or of images");
  auto config = std::make_shared<ClassifyConfig>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *compute);
  verb->callback([=] { classify(*config, *compute); });
}

}  // namespace transformer::cli
