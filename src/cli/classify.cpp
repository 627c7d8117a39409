// transformer classify: what texts, their words, or images are.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/compute.h"
#include "cli/files.h"
#include "cli/flags.h"
#include "cli/input_lines.h"
#include "cli/verbs.h"
#include "text/shared/entities.h"
#include "transformer/core/error.h"
#include "transformer/io/delimited.h"
#include "transformer/predict/classifier.h"

namespace transformer::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ClassifyVerb {
  std::string model = {}, adapter = {};
  std::vector<std::string> text = {}, image = {};
  std::string input = {};
  bool pairs = false, skip_broken = false;
  std::optional<std::int64_t> top_k = {};
  std::optional<float> threshold = {};
  bool tags = false;
  bool json = false;
  std::int64_t chunk_lines = 4096;

  static void visit(auto& self, auto&& field) {
    field("adapter", self.adapter, adapter_help);
    field("text", self.text, "classify this instead of the lines of standard input");
    field("input", self.input, "classify the lines of this file, plain or gzip");
    field("pairs", self.pairs,
          "a line is two texts with a tab between them (in .csv files a comma or the like): a question and an answer, two sentences");
    field("image", self.image, "PNG, JPEG, WebP, BMP or GIF files, for models of images");
    field("skip_broken", self.skip_broken, "leave out images that cannot be read, and say which");
    field("top_k", self.top_k, "labels given, the best first (0: all; none: 1, but of models that give several all over the threshold)");
    field("threshold", self.threshold, "the least probability of a label that is given (none: 0.5 for models that give several)");
    field("tags", self.tags, "of models that label words: a line for each word with its tag, instead of the names that they make up");
    field("json", self.json, "a JSON object per line instead of label, tab, probability");
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

// Numbers, one or several with a tab between them.
void print_numbers(const std::vector<Label>& numbers) {
  std::string line;
  for (const Label& number : numbers) line += fmt::format("{}{:.6g}", line.empty() ? "" : "\t", number.score);
  std::cout << line << '\n';
}

void classify_images(Context& ctx, const Classifier& classifier, const ClassifyVerb& config) {
  std::size_t broken = 0;
  for (const std::string& path : config.image) {  // one at a time: images are large, and a damaged one is named after the others
    Image image;
    try {
      image = read_image(path);
    } catch (const Error& e) {
      if (!config.skip_broken && config.image.size() == 1) throw;
      if (!config.skip_broken)
        fail(e.where(), "{}. Repair it, or leave such images out (skip_broken)", std::string_view(e.what()).substr(e.where().size() + 2));
      fmt::print(stderr, "transformer: {}\n", e.what());
      ++broken;
      continue;
    }
    const auto labels = classifier.images(ctx, std::span(&image, 1), {.top_k = config.top_k, .threshold = config.threshold}).front();
    if (config.json) print_json({{"image", path}, {"labels", labels_json(labels)}});
    else print_labels(labels, path);
  }
  if (broken > 0 && broken == config.image.size()) fail("classify", "no image is left: none of the {} can be read", broken);
  if (broken > 0) fmt::print(stderr, "left out: {} {} that cannot be read\n", broken, broken == 1 ? "image" : "images");
}

void classify_texts(Context& ctx, const Classifier& classifier, const std::vector<std::string>& texts, const ClassifyOptions& options,
                    bool json) {
  const auto all = classifier.texts(ctx, texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (json) print_json({{"text", texts[i]}, {"labels", labels_json(all[i])}});
    else if (classifier.gives_numbers()) print_numbers(all[i]);
    else print_labels(all[i]);
  }
}

// Pairs of texts: the records of a file; or lines as they come, each with a tab in it.
class Pairs {
 public:
  std::vector<std::string> first, second;

  Pairs(const std::vector<std::string>& texts, const std::string& path)
      : lines_(texts, path), file_(!path.empty() && path != "-" ? std::make_unique<LineReader>(path) : nullptr),
        records_([this](std::string& line) { return file_ ? file_->next(line) : take(line); }, file_ ? path : "classify",
                 {.delimiter = delimiter_of(path)}) {}

  // Up to `most` of them, or one; false after the last.
  bool chunk(std::int64_t most) {
    first.clear(), second.clear();
    std::vector<std::string> cells, lines;
    if (file_) {
      while ((first.empty() || std::ssize(first) < most) && records_.next(cells)) add(cells);
    } else if (lines_.chunk(most, lines)) {
      for (std::string& line : lines) waiting_ = std::move(line), records_.next(cells), add(cells);
    }
    return !first.empty();
  }

 private:
  void add(std::vector<std::string>& cells) {
    if (cells.size() != 2)
      fail(file_ ? file_->path() : "classify", "line {} has {} column{}: with --pairs a line is two texts with one {} between them",
           records_.line(), cells.size(), cells.size() == 1 ? "" : "s", records_.delimiter_name());
    first.push_back(std::move(cells[0])), second.push_back(std::move(cells[1]));
  }

  bool take(std::string& line) {
    if (!waiting_) return false;
    line = std::move(*waiting_);
    waiting_.reset();
    return true;
  }

  InputLines lines_;
  std::optional<std::string> waiting_;
  std::unique_ptr<LineReader> file_;
  DelimitedReader records_;
};

void classify_pairs(Context& ctx, const Classifier& classifier, const Pairs& pairs, const ClassifyOptions& options, bool json) {
  const auto &first = pairs.first, &second = pairs.second;
  const auto all = classifier.pairs(ctx, first, second, options);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (json) print_json({{"text", first[i]}, {"second", second[i]}, {"labels", labels_json(all[i])}});
    else if (classifier.gives_numbers()) print_numbers(all[i]);
    else print_labels(all[i]);
  }
}

// A line per word, and an empty one after each text.
void classify_words(Context& ctx, const Classifier& classifier, const std::vector<std::string>& texts, const ClassifyOptions& options,
                    bool json) {
  const auto all = classifier.words(ctx, texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json words = Json::array();
    for (const TokenLabels& w : all[i]) {
      if (json) words.push_back({{"word", w.token}, {"begin", w.place.begin}, {"end", w.place.end}, {"labels", labels_json(w.labels)}});
      else print_labels(w.labels, w.token);
    }
    if (json) print_json({{"text", texts[i]}, {"words", words}});
    else std::cout << '\n';
  }
}

// A line an entity: its words, its type, its probability; and an empty one after each text.
void find_entities(Context& ctx, const Classifier& classifier, const std::vector<std::string>& texts, const ClassifyOptions& options,
                   bool json) {
  const auto all = classifier.entities(ctx, texts, options);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json entities = Json::array();
    for (const FoundEntity& e : all[i]) {
      if (json)
        entities.push_back({{"label", e.type}, {"score", e.score}, {"text", e.text}, {"begin", e.place.begin}, {"end", e.place.end}});
      else std::cout << fmt::format("{}\t{}\t{:.6f}\n", e.text, e.type, e.score);
    }
    if (json) print_json({{"text", texts[i]}, {"entities", entities}});
    else std::cout << '\n';
  }
}

void classify(const ClassifyVerb& config, const ComputeConfig& compute) {
  if (config.model.empty()) throw CLI::RequiredError("MODEL");
  if (!config.image.empty() && (!config.text.empty() || !config.input.empty() || config.pairs))
    throw CLI::ValidationError("--image and --text, --input or --pairs exclude each other");
  keep_apart({{"--input", config.text.empty() && config.image.empty() ? or_standard(config.input) : ""}}, {{"", "-"}});
  Context ctx(compute.context());
  const Classifier classifier = Classifier::load(ctx, config.model, config.adapter);
  const bool images = classifier.kind() == Classifier::Kind::images;
  if (images == config.image.empty())
    throw CLI::ValidationError(images ? "the model classifies images: name them with --image" : "the model classifies text, not images");
  if (images) return classify_images(ctx, classifier, config);

  TextReport report;
  const ClassifyOptions options{.top_k = config.top_k, .threshold = config.threshold, .report = &report};
  const bool tokens = classifier.kind() == Classifier::Kind::tokens;
  if (config.tags && !tokens) throw CLI::ValidationError("--tags is for models that label words; this one classifies texts");
  if (config.threshold && classifier.gives_numbers()) throw CLI::ValidationError("--threshold is for labels; this model gives numbers");
  if (config.pairs) {
    if (classifier.kind() != Classifier::Kind::texts)
      throw CLI::ValidationError("--pairs is for models that classify texts; this one labels their tokens");
    for (Pairs pairs(config.text, config.input); pairs.chunk(config.chunk_lines); std::cout.flush())
      classify_pairs(ctx, classifier, pairs, options, config.json);
  } else {
    const bool entities = tokens && !config.tags && !config.top_k && marks_entities(classifier.names());
    InputLines input(config.text, config.input);
    for (std::vector<std::string> texts; input.chunk(config.chunk_lines, texts); std::cout.flush()) {
      if (entities) find_entities(ctx, classifier, texts, options, config.json);
      else if (tokens) classify_words(ctx, classifier, texts, options, config.json);
      else classify_texts(ctx, classifier, texts, options, config.json);
    }
  }
  if (const std::string summary = report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
}

}  // namespace

void add_classify(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("classify", "labels of texts, of their words, or of images; numbers of texts");
  auto config = std::make_shared<ClassifyVerb>();
  auto compute = std::make_shared<ComputeConfig>();
  verb->add_option("MODEL", config->model, "a model's folder");
  add_settings(*verb, *config, *compute);
  verb->callback([=] { classify(*config, *compute); });
}

}  // namespace transformer::cli
