#include "transformer/train/classify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/hash.h"
#include "generate/loop.h"
#include "generate/text_reader.h"
#include "text/blank.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"
#include "transformer/text/chunks.h"
#include "transformer/text/plan.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *where = "train classify", *head = "ForSequenceClassification", *single_label = "single_label_classification";

// The classes that a classifier's config.json names, in the order of their ids; none for other models.
std::vector<std::string> classes_of(const json& config) {
  const auto architectures = config.find("architectures"), labels = config.find("id2label");
  if (architectures == config.end() || !architectures->is_array() || architectures->empty() || !architectures->front().is_string() ||
      !architectures->front().get<std::string>().ends_with(head) || labels == config.end() || !labels->is_object())
    return {};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

json labels_json(const std::vector<std::string>& classes) {
  json names = json::object(), ids = json::object();
  for (std::size_t i = 0; i < classes.size(); ++i) names[std::to_string(i)] = classes[i], ids[classes[i]] = i;
  return {{"id2label", names}, {"label2id", ids}, {"problem_type", single_label}};
}

// Their mean over the samples is 1, so that only their ratios matter.
std::vector<float> class_weights(const std::string& setting, const std::vector<std::string>& classes,
                                 const std::vector<std::int64_t>& samples) {
  if (setting == "none") return {};
  std::vector<double> weights;
  if (setting == "balanced") {
    for (const std::int64_t n : samples) weights.push_back(n == 0 ? 0.0 : 1.0 / static_cast<double>(n));
  } else {
    for (std::size_t begin = 0; begin <= setting.size();) {
      const std::size_t end = std::min(setting.find(',', begin), setting.size());
      double value = 0.0;
      const auto [stop, error] = std::from_chars(setting.data() + begin, setting.data() + end, value);
      if (error != std::errc() || stop != setting.data() + end || !(value >= 0.0) || !(value <= 1e6))
        fail(where, "class_weights is '{}': expected none, balanced, or a number for each class: 1,5,2", setting);
      weights.push_back(value);
      begin = end + 1;
    }
    if (weights.size() != classes.size())
      fail(where, "class_weights has {} numbers, but there are {} classes: {}", weights.size(), classes.size(), fmt::join(classes, ", "));
  }
  double sum = 0.0, count = 0.0;
  for (std::size_t c = 0; c < weights.size(); ++c)
    sum += weights[c] * static_cast<double>(samples[c]), count += static_cast<double>(samples[c]);
  if (!(sum > 0.0)) fail(where, "class_weights is '{}': all texts would count for nothing", setting);
  std::vector<float> out;
  for (const double w : weights) out.push_back(static_cast<float>(w * count / sum));
  return out;
}

// The texts of a batch, padded. types: the model knows two kinds of text.
HostTensors padded(const LabelledTokens& data, const std::vector<std::int64_t>& indices, std::int64_t padding, bool types) {
  std::size_t longest = 1;
  for (const std::int64_t i : indices) longest = std::max(longest, data.tokens.at(i).size());
  std::vector<std::int64_t> ids(indices.size() * longest, padding), mask(ids.size(), 0), kinds(types ? ids.size() : 0, 0), labels;
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto from = data.tokens.at(indices[row]);
    const auto at = static_cast<std::ptrdiff_t>(row * longest);
    std::copy(from.begin(), from.end(), ids.begin() + at);
    std::fill_n(mask.begin() + at, from.size(), 1);
    const auto i = static_cast<std::size_t>(indices[row]);
    if (types) std::fill(kinds.begin() + at + data.second[i], kinds.begin() + at + std::ssize(from), 1);
    labels.push_back(data.labels[i]);
  }
  const Shape shape{static_cast<std::int64_t>(indices.size()), static_cast<std::int64_t>(longest)};
  HostTensors out;
  out["input_ids"] = {shape, std::move(ids)};
  out["attention_mask"] = {shape, std::move(mask)};
  out["labels"] = {{shape[0]}, std::move(labels)};
  if (types) out["token_type_ids"] = {shape, std::move(kinds)};
  return out;
}

std::int64_t padding_of(const TextModel& model) { return std::clamp<std::int64_t>(model.text().padding, 0, model.text().vocabulary - 1); }
bool has_types(const TextModel& model, const LabelledTokens& data) { return model.text().types > 1 && !data.second.empty(); }

// The same batches wherever texts are judged: the same figures.
Evaluation judge(Context& ctx, const TextModel& model, const LabelledTokens& data, const std::vector<std::string>& classes) {
  const Inference inference(ctx);
  std::int64_t batch_tokens = 8192;
  for (std::int64_t i = 0; i < data.tokens.count(); ++i) batch_tokens = std::max<std::int64_t>(batch_tokens, std::ssize(data.tokens.at(i)));
  Evaluation out{.matrix = ConfusionMatrix(classes)};
  for (const auto& indices : plan_epoch(data.tokens, batch_tokens, 0, 0)) {
    const NamedTensors result = model.run(ctx, to_tensors(ctx, padded(data, indices, padding_of(model), has_types(model, data))));
    out.loss += static_cast<double>(result.at("loss").item()) * static_cast<double>(indices.size());
    const Tensor logits = cast(ctx, result.at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    const auto n = static_cast<std::ptrdiff_t>(logits.cols());
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) * n;
      out.matrix.add(data.labels[static_cast<std::size_t>(indices[row])], std::max_element(begin, begin + n) - begin);
    }
  }
  out.loss /= static_cast<double>(data.tokens.count());
  return out;
}

// A file's rows, as they were read.
struct Rows {
  std::string path;
  std::vector<std::string> texts, second, labels;
  std::vector<std::int64_t> lines;

  Rows(const std::string& file, const LabelledColumns& columns) : path(file) {
    LabelledReader reader(file, columns);
    while (auto row = reader.next()) {
      texts.push_back(std::move(row->text)), labels.push_back(std::move(row->label)), lines.push_back(row->line);
      if (reader.pairs()) second.push_back(std::move(row->second));
    }
    if (texts.empty()) fail(path, "there are no texts");
  }

  LabelledTokens tokens(Context& ctx, const TokenizerPtr& tokenizer, std::int64_t longest, const std::vector<std::string>& classes,
                        TextReport& report) const {
    LabelledTokens out;
    std::map<std::string_view, std::int32_t> ids;
    for (const std::string& name : classes) ids.emplace(name, static_cast<std::int32_t>(ids.size()));
    const TextReader reader(tokenizer, longest);
    constexpr std::size_t part = 8192;
    for (std::size_t begin = 0; begin < texts.size(); begin += part) {
      const std::size_t size = std::min(part, texts.size() - begin);
      const auto all = reader.read(ctx, std::span(texts).subspan(begin, size),
                                   second.empty() ? std::span<const std::string>() : std::span(second).subspan(begin, size), &report);
      for (const Encoding& e : all) {
        out.tokens.add(e.ids);
        if (!second.empty())
          out.second.push_back(static_cast<std::int32_t>(std::find(e.type_ids.begin(), e.type_ids.end(), 1) - e.type_ids.begin()));
      }
    }
    for (const std::string& label : labels) out.labels.push_back(ids.at(label));
    return out;
  }

  // known_by: who has the classes.
  void check_classes(const std::vector<std::string>& classes, const std::string& known_by) const {
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (std::find(classes.begin(), classes.end(), labels[i]) == classes.end())
        fail(path, "line {} has the class '{}', which {} does not have{}", lines[i], labels[i], known_by, did_you_mean(labels[i], classes));
  }
};

}  // namespace

std::uint64_t LabelledTokens::fingerprint() const {
  Hash hash;
  tokens.add_to(hash);
  for (const auto* list : {&second, &labels})
    for (const std::int32_t value : *list) hash.word(static_cast<std::uint64_t>(value));
  return hash.finish();
}

struct ClassifyFiles {
  Rows training;
  std::optional<Rows> validation, test;

  explicit ClassifyFiles(const ClassifyConfig& config) : training((check(config), config.data), config.columns) {
    if (!config.valid.empty()) validation.emplace(config.valid, config.columns);
    if (!config.test.empty()) test.emplace(config.test, config.columns);
  }
  static void check(const ClassifyConfig& config) {
    if (config.data.empty()) fail(where, "data is missing: expected a file with texts and their classes");
    for (const std::string& path : {config.valid, config.test})
      if (!path.empty() && path != "-") LabelledReader(path, config.columns);  // what is wrong is known before the large one is read
  }

  std::vector<std::string> classes() const {
    std::vector<std::string> names = training.labels;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.size() < 2)
      fail(training.path, "all {} texts have the class '{}': expected two classes or more", training.texts.size(), names.front());
    return names;
  }
  void check_classes(const std::vector<std::string>& classes) const {
    if (validation) validation->check_classes(classes, "the training text " + training.path);
    if (test) test->check_classes(classes, "the training text " + training.path);
  }
  LineSource texts() const {
    std::vector<std::string> all = training.texts;
    all.insert(all.end(), training.second.begin(), training.second.end());
    if (std::all_of(all.begin(), all.end(), is_blank))
      fail(training.path, "all texts are empty: there is nothing to learn a vocabulary from");
    return lines_of(std::move(all));
  }
};

ClassifyTask::ClassifyTask(Context& ctx, const ClassifyConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
                           const std::optional<fs::path>& resumed)
    : EncoderTask(ctx, where), config_(config) {
  check_fresh(resumed);
  const ClassifyFiles files(config);
  classes_ = files.classes();
  files.check_classes(classes_);
  make_tokenizer(model, vocabulary, files.texts(), resumed);
  build(model, head, config.max_length, labels_json(classes_));
  read(files);
}

ClassifyTask::ClassifyTask(Context& ctx, const ClassifyConfig& config, const EncoderStart& start)
    : EncoderTask(ctx, where), config_(config) {
  const ClassifyFiles files(config);
  classes_ = files.classes();
  open(start, head, config.max_length, [&](const json& theirs) {
    const std::vector<std::string> known = classes_of(theirs);
    const bool all = std::all_of(classes_.begin(), classes_.end(),
                                 [&](const std::string& c) { return std::find(known.begin(), known.end(), c) != known.end(); });
    if (all) {
      classes_ = known;
      // A head that was trained for something else gives each text one class from now on.
      const json type = theirs.value("problem_type", json());
      return type.is_null() || type == single_label ? json() : json{{"problem_type", single_label}};
    }
    json changes = labels_json(classes_);
    if (theirs.contains("num_labels")) changes["num_labels"] = classes_.size();
    return changes;
  });
  files.check_classes(classes_);
  read(files);
}

void ClassifyTask::read(const ClassifyFiles& files) {
  samples_.assign(classes_.size(), 0);
  for (const std::string& label : files.training.labels)
    ++samples_[static_cast<std::size_t>(std::find(classes_.begin(), classes_.end(), label) - classes_.begin())];
  weights_ = class_weights(config_.class_weights, classes_, samples_);
  const auto tokens = [&](const Rows& rows) { return rows.tokens(context(), shared_tokenizer(), longest(), classes_, report_); };
  training_ = tokens(files.training);
  if (files.validation) validation_ = tokens(*files.validation);
  if (files.test) test_ = tokens(*files.test);
  static_cast<void>(plan_epoch(training_.tokens, config_.max_tokens, 0, 0));  // says when a text is too long for a batch
}

json ClassifyTask::identity() const {
  json out = encoder_identity();
  out["data"].update({{"training_texts", training_.tokens.count()},
                      {"training_fingerprint", hex(training_.fingerprint())},
                      {"max_tokens", config_.max_tokens},
                      {"class_weights", config_.class_weights}});
  if (validation_) out["data"]["validation_fingerprint"] = hex(validation_->fingerprint());
  return out;
}

std::int64_t ClassifyTask::plan(std::int64_t epoch) {
  plan_ = plan_epoch(training_.tokens, config_.max_tokens, seed(), epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch ClassifyTask::prepare(std::int64_t index) const {
  const std::vector<std::int64_t>& indices = plan_[static_cast<std::size_t>(index)];
  std::int64_t tokens = 0;
  for (const std::int64_t i : indices) tokens += std::ssize(training_.tokens.at(i));
  return {.content = padded(training_, indices, padding_of(network()), has_types(network(), training_)),
          .targets = std::ssize(indices),
          .tokens = tokens};
}

// With weights: Σ w·(−log p) / n, where the mean of w is 1.
Tensor ClassifyTask::loss(Context& ctx, const Batch& batch) const {
  if (weights_.empty()) return ModelTask::loss(ctx, batch);
  NamedTensors inputs = to_tensors(ctx, *std::any_cast<HostTensors>(&batch.content));
  const std::vector<std::int64_t> labels = inputs.extract("labels").mapped().to_vector<std::int64_t>();
  const Tensor log_p = log_softmax(ctx, cast(ctx, model().run(ctx, inputs).at("logits"), DType::float32));
  std::vector<float> factors(static_cast<std::size_t>(log_p.numel()), 0.0F);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    factors[i * classes_.size() + label] = -weights_[label] / static_cast<float>(labels.size());
  }
  return reshape(ctx, sum(ctx, mul(ctx, log_p, Tensor::from<float>(ctx, log_p.shape(), factors))), {1});
}

Metrics ClassifyTask::validate(Context& ctx) {
  if (!validation_) return {};
  const Evaluation e = judge(ctx, network(), *validation_, classes_);
  return {{"loss", e.loss}, {"accuracy", e.matrix.accuracy()}, {"macro_f1", e.matrix.macro_f1()}};
}

std::vector<std::string> ClassifyTask::metrics() const {
  if (!validation_) return {};
  return {"loss", "accuracy", "macro_f1"};
}

std::optional<Evaluation> ClassifyTask::test(Context& ctx) const {
  if (!test_ && !validation_) return std::nullopt;
  return judge(ctx, network(), test_ ? *test_ : *validation_, classes_);
}

Evaluation evaluate_classifier(Context& ctx, const fs::path& folder, const std::string& file, const LabelledColumns& columns,
                               std::int64_t max_length, const fs::path& adapter) {
  const Rows rows(file, columns);
  const std::unique_ptr<Model> model = load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter});
  const auto* text = dynamic_cast<const TextModel*>(model.get());
  const std::vector<std::string> classes = classes_of(model->config());
  if (text == nullptr || text->text().task != TextTask::sequence_labels || classes.empty())
    fail(folder.string(),
         "not a classifier of texts: expected a …ForSequenceClassification whose config.json names the classes (id2label)");
  if (const json type = model->config().value("problem_type", json()); !type.is_null() && type != single_label)
    fail(folder.string(), "its problem_type is {}: expected {}, a model that gives each text one class", type.dump(), single_label);
  rows.check_classes(classes, "the model " + folder.string());
  TextReport report;
  const std::int64_t most = longest_text(*model), longest = max_length > 0 && (most == 0 || max_length < most) ? max_length : most;
  const LabelledTokens data = rows.tokens(ctx, tokenizer_of(folder), longest, classes, report);
  Evaluation out = judge(ctx, *text, data, classes);
  out.report = report;
  return out;
}

}  // namespace transformer
