#include "transformer/train/classify.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/shared/hash.h"
#include "core/shared/share_out.h"
#include "generate/shared/loop.h"
#include "io/shared/blank.h"
#include "io/shared/chunks.h"
#include "predict/shared/text_reader.h"
#include "text/shared/plan.h"
#include "train/batch_size.h"
#include "train/encoder_batch.h"
#include "train/labelled_rows.h"
#include "train/shares.h"
#include "transformer/core/setting_error.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* classify_head = "ForSequenceClassification";

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
        wrong_setting("train classify", "class_weights", "is '{}': expected none, balanced, or a number for each class: 1,5,2", setting);
      weights.push_back(value);
      begin = end + 1;
    }
    if (weights.size() != classes.size())
      wrong_setting("train classify", "class_weights", "has {} numbers, but there are {} classes: {}", weights.size(), classes.size(),
                    fmt::join(classes, ", "));
  }
  double sum = 0.0, count = 0.0;
  for (std::size_t c = 0; c < weights.size(); ++c)
    sum += weights[c] * static_cast<double>(samples[c]), count += static_cast<double>(samples[c]);
  if (!(sum > 0.0)) wrong_setting("train classify", "class_weights", "is '{}': all texts would count for nothing", setting);
  std::vector<float> out;
  for (const double w : weights) out.push_back(static_cast<float>(w * count / sum));
  return out;
}

HostTensor labels_of(const LabelledTokens& data, const LabelHead& head, const std::vector<std::int64_t>& indices) {
  const auto rows = static_cast<std::int64_t>(indices.size());
  if (head.problem == ProblemType::single_label) {
    std::vector<std::int64_t> labels;
    for (const std::int64_t i : indices) labels.push_back(data.labels.at(i).front());
    return {{rows}, std::move(labels)};
  }
  const std::size_t width = head.names.size();
  std::vector<float> labels(indices.size() * width, 0.0F);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    if (head.problem == ProblemType::regression)
      std::copy_n(data.values.begin() + static_cast<std::ptrdiff_t>(indices[row]) * static_cast<std::ptrdiff_t>(width), width,
                  labels.begin() + static_cast<std::ptrdiff_t>(row * width));
    else
      for (const std::int32_t label : data.labels.at(indices[row])) labels[row * width + static_cast<std::size_t>(label)] = 1.0F;
  }
  return {{rows, static_cast<std::int64_t>(width)}, std::move(labels)};
}

bool has_types(const TextModel& model, const LabelledTokens& data) { return model.text().types > 1 && !data.second.empty(); }

LabelledBatch batch_of(const TextModel& model, const LabelledTokens& data, const LabelHead& head,
                       const std::vector<std::int64_t>& indices) {
  LabelledBatch out{packed_texts(data.tokens, indices), labels_of(data, head, indices)};
  if (!has_types(model, data)) return out;
  for (const std::int64_t i : indices) {
    const std::int64_t first = data.second[static_cast<std::size_t>(i)];
    out.texts.types.insert(out.texts.types.end(), static_cast<std::size_t>(first), 0);
    out.texts.types.insert(out.texts.types.end(), data.tokens.at(i).size() - static_cast<std::size_t>(first), 1);
  }
  return out;
}

Tensor loss_of(Context& ctx, const TextModel& model, const Tensor& logits, const HostTensor& labels) {
  return label_loss(ctx, logits, to_tensor(ctx, labels), model.text().problem);
}

// Nothing measured yet.
Evaluation unmeasured(const LabelHead& head) {
  if (head.problem == ProblemType::regression) return {.scores = NumberScores(head.names)};
  if (head.problem == ProblemType::multi_label) return {.scores = LabelScores()};
  return {.scores = ConfusionMatrix(head.names)};
}

// Adds what a batch's logits [texts, outputs] say to the scores of that kind.
class Judge {
 public:
  Judge(const LabelledTokens& data, const LabelHead& head) : data_(data), head_(head), found_(head.names.size()) {}

  void add(ConfusionMatrix& scores, std::int64_t text, std::span<const float> logits) {
    scores.add(data_.labels.at(text).front(), std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  void add(NumberScores& scores, std::int64_t text, std::span<const float> logits) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      scores.add(static_cast<std::int64_t>(i), data_.values[static_cast<std::size_t>(text) * logits.size() + i], logits[i]);
  }
  // A label is given where its probability is a half or more: where its logit is not negative.
  void add(LabelScores& scores, std::int64_t text, std::span<const float> logits) {
    const auto labels = data_.labels.at(text);
    bool exact = true;
    for (std::size_t c = 0; c < logits.size(); ++c) {
      const bool there = std::binary_search(labels.begin(), labels.end(), static_cast<std::int32_t>(c)), found = logits[c] >= 0.0F;
      found_[c].there += there ? 1 : 0, found_[c].found += found ? 1 : 0, found_[c].right += there && found ? 1 : 0;
      exact = exact && there == found;
    }
    scores.add_samples(1, exact ? 1 : 0);
  }
  void add(EntityScores&, std::int64_t, std::span<const float>) { fail("train classify", "a text has no entities here"); }
  void finish(Evaluation& out) const {
    if (auto* scores = std::get_if<LabelScores>(&out.scores))
      for (std::size_t c = 0; c < found_.size(); ++c) scores->add(head_.names[c], found_[c]);
  }

 private:
  const LabelledTokens& data_;
  const LabelHead& head_;
  std::vector<FoundScores::Counts> found_;  // of several labels, by class
};

// The same batches wherever texts are judged: the same figures.
Evaluation judge(Context& ctx, const TextModel& model, const LabelledTokens& data, const LabelHead& head) {
  const Inference inference(ctx);
  Evaluation out = unmeasured(head);
  Judge judge(data, head);
  const auto plan = plan_epoch(data.tokens, judging_tokens(data.tokens), 0, 0);
  const auto measure = [&](std::int64_t i) {  // the logits, then the loss
    const LabelledBatch batch = batch_of(model, data, head, plan[static_cast<std::size_t>(i)]);
    const Tensor logits = model.label_logits(ctx, batch.texts);
    const float loss = loss_of(ctx, model, logits, batch.labels).item();
    std::vector<float> values = cast(ctx, logits, DType::float32).to_vector<float>();
    values.push_back(loss);
    return values;
  };
  share_out<float>(ctx, std::ssize(plan), measure, [&](std::int64_t i, const std::vector<float>& values) {
    const std::vector<std::int64_t>& indices = plan[static_cast<std::size_t>(i)];
    out.loss += static_cast<double>(values.back()) * static_cast<double>(indices.size());
    const std::size_t n = (values.size() - 1) / indices.size();
    for (std::size_t row = 0; row < indices.size(); ++row)
      std::visit([&](auto& scores) { judge.add(scores, indices[row], std::span(values).subspan(row * n, n)); }, out.scores);
  });
  judge.finish(out);
  out.loss /= static_cast<double>(data.tokens.count());
  return out;
}

}  // namespace

std::uint64_t LabelledTokens::fingerprint() const {
  Hash hash;
  tokens.add_to(hash);
  for (const std::int32_t value : second) hash.word(static_cast<std::uint64_t>(value));
  for (const std::int32_t value : labels.all()) hash.word(static_cast<std::uint64_t>(value));
  for (std::size_t i = 0; i < labels.offsets().size(); ++i)  // several: whose they are
    if (const auto offset = static_cast<std::size_t>(labels.offsets()[i]); offset != i) hash.word(i), hash.word(offset);
  for (const float value : values) hash.word(std::bit_cast<std::uint32_t>(value));
  return hash.finish();
}

struct ClassifyFiles {
  LabelledRows training;
  std::optional<LabelledRows> validation, test;
  LabelHead head;

  explicit ClassifyFiles(const ClassifyConfig& config) : training((check(config), config.data), config.columns) {
    if (!config.valid.empty()) validation.emplace(config.valid, config.columns);
    if (!config.test.empty()) test.emplace(config.test, config.columns);
    head = training.head(config.problem_type == ProblemType::by_labels ? training.problem() : config.problem_type);
  }
  static void check(const ClassifyConfig& config) {
    if (config.data.empty()) wrong_setting("train classify", "data", "is missing: expected a file with texts and their classes");
    for (const std::string& path : {config.valid, config.test})
      if (!path.empty() && path != "-") LabelledReader(path, config.columns);  // what is wrong is known before the large one is read
  }
  void check_labels(const LabelHead& known) const {
    if (validation) validation->check(known, "the training text " + training.path);
    if (test) test->check(known, "the training text " + training.path);
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
    : EncoderTask(ctx, "train classify"), config_(config) {
  check_fresh(resumed);
  const ClassifyFiles files(config);
  head_ = std::make_shared<LabelHead>(files.head);
  files.check_labels(*head_);
  make_tokenizer(model, vocabulary, files.texts(), resumed);
  build(model, classify_head, config.max_length, head_json(*head_));
  read(files);
}

ClassifyTask::ClassifyTask(Context& ctx, const ClassifyConfig& config, const EncoderStart& start)
    : EncoderTask(ctx, "train classify"), config_(config) {
  const ClassifyFiles files(config);
  head_ = std::make_shared<LabelHead>(files.head);
  open(start, classify_head, config.max_length, [&](const json& theirs) {
    const LabelHead known = head_of(theirs);
    const bool numbers = head_->problem == ProblemType::regression;
    const bool fits = numbers ? known.problem == ProblemType::regression && known.names.size() == head_->names.size()
                              : std::all_of(head_->names.begin(), head_->names.end(), [&](const std::string& c) {
                                  return std::find(known.names.begin(), known.names.end(), c) != known.names.end();
                                });
    if (fits) {
      head_->names = known.names;
      // A head that was trained for something else is of this kind from now on.
      const json wanted = head_json(*head_).at("problem_type"), type = theirs.value("problem_type", json());
      const bool same = type == wanted || (type.is_null() && known.problem == head_->problem);
      return same ? json() : json{{"problem_type", wanted}};
    }
    json changes = head_json(*head_);
    if (theirs.contains("num_labels")) changes["num_labels"] = head_->names.size();
    return changes;
  });
  files.check_labels(*head_);
  read(files);
}

ProblemType ClassifyTask::problem() const { return head_->problem; }
const std::vector<std::string>& ClassifyTask::classes() const { return head_->names; }

std::pair<double, double> ClassifyTask::spread() const {
  double mean = 0.0, squares = 0.0;
  const auto n = static_cast<double>(training_.values.size());
  for (const float value : training_.values) mean += static_cast<double>(value) / n;
  for (const float value : training_.values) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / n;
  return {mean, std::sqrt(squares)};
}

void ClassifyTask::read(const ClassifyFiles& files) {
  const auto tokens = [&](const LabelledRows& rows) { return rows.tokens(context(), shared_tokenizer(), longest(), *head_, report_); };
  training_ = tokens(files.training);
  if (files.validation) validation_ = tokens(*files.validation);
  if (files.test) test_ = tokens(*files.test);
  if (config_.max_tokens == 0) config_.max_tokens = max_tokens_for(training_.tokens, ClassifyConfig::usual_max_tokens);
  samples_.assign(classes().size(), 0);
  for (const std::int32_t label : training_.labels.all()) ++samples_[static_cast<std::size_t>(label)];
  if (config_.class_weights != "none" && problem() != ProblemType::single_label)
    wrong_setting("train classify", "class_weights", "is '{}': weights are for texts with one class each", config_.class_weights);
  weights_ = class_weights(config_.class_weights, classes(), samples_);
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

json ClassifyTask::evaluation() const { return test_ ? json{{"test_fingerprint", hex(test_->fingerprint())}} : json::object(); }

std::int64_t ClassifyTask::plan(std::int64_t epoch) {
  plan_ = plan_epoch(training_.tokens, config_.max_tokens, seed(), epoch);
  return static_cast<std::int64_t>(plan_.size());
}

Batch ClassifyTask::prepare(std::int64_t index, const Share& share) const {
  const auto tokens_of = [&](std::int64_t i) { return std::ssize(training_.tokens.at(i)); };
  const std::vector<std::int64_t> indices = part_of(plan_[static_cast<std::size_t>(index)], share, tokens_of);
  if (indices.empty()) return {};
  std::int64_t tokens = 0;
  for (const std::int64_t i : indices) tokens += std::ssize(training_.tokens.at(i));
  return {.content = batch_of(network(), training_, *head_, indices), .targets = std::ssize(indices), .tokens = tokens};
}

// With weights: Σ w·(−log p) / n, where the mean of w is 1.
Tensor ClassifyTask::loss(Context& ctx, const Batch& batch) const {
  const auto& [texts, given] = *std::any_cast<LabelledBatch>(&batch.content);
  const Tensor logits = network().label_logits(ctx, texts);
  if (weights_.empty()) return loss_of(ctx, network(), logits, given);
  const auto& labels = std::get<std::vector<std::int64_t>>(given.values);
  const Tensor log_p = log_softmax(ctx, cast(ctx, logits, DType::float32));
  std::vector<float> factors(static_cast<std::size_t>(log_p.numel()), 0.0F);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::size_t>(labels[i]);
    factors[i * classes().size() + label] = -weights_[label] / static_cast<float>(labels.size());
  }
  return reshape(ctx, sum(ctx, mul(ctx, log_p, Tensor::from<float>(ctx, log_p.shape(), factors))), {1});
}

Metrics ClassifyTask::validate(Context& ctx) {
  if (!validation_) return {};
  return judge(ctx, network(), *validation_, *head_).metrics();
}

std::vector<std::string> ClassifyTask::metrics() const {
  std::vector<std::string> names;
  if (!validation_) return names;
  for (const auto& [name, value] : unmeasured(*head_).metrics()) names.push_back(name);
  return names;
}

std::optional<Evaluation> ClassifyTask::test(Context& ctx) const {
  if (!test_ && !validation_) return std::nullopt;
  return judge(ctx, network(), test_ ? *test_ : *validation_, *head_);
}

Evaluation evaluate_classifier(Context& ctx, const fs::path& folder, const std::string& file, const LabelledColumns& columns,
                               std::int64_t max_length, const fs::path& adapter) {
  const LabelledRows rows(file, columns);
  const std::unique_ptr<Model> model = load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter});
  const auto* text = dynamic_cast<const TextModel*>(model.get());
  const LabelHead head = head_of(model->config());
  if (text == nullptr || text->text().task != TextTask::sequence_labels || head.names.empty())
    fail(folder.string(),
         "not a classifier of texts: expected a …ForSequenceClassification whose config.json names the classes (id2label)");
  rows.check(head, "the model " + folder.string());
  TextReport report;
  const std::int64_t most = longest_text(*model), longest = max_length > 0 && (most == 0 || max_length < most) ? max_length : most;
  const LabelledTokens data = rows.tokens(ctx, tokenizer_of(folder), longest, head, report);
  Evaluation out = judge(ctx, *text, data, head);
  out.report = report;
  return out;
}

}  // namespace transformer
