#include "transformer/generate/classifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/finite.h"
#include "generate/loop.h"
#include "generate/text_reader.h"
#include "transformer/core/error.h"
#include "transformer/models/purpose.h"
#include "transformer/models/text.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// The names of the classes: id2label, or LABEL_0 … where it has none, as in Hugging Face's configuration.
std::vector<std::string> label_names(const nlohmann::json& config, std::int64_t count) {
  std::vector<std::string> names;
  const auto given = config.find("id2label");
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string key = std::to_string(i);
    const bool known = given != config.end() && given->is_object() && given->contains(key) && given->at(key).is_string();
    names.push_back(known ? given->at(key).get<std::string>() : "LABEL_" + key);
  }
  return names;
}

std::int64_t classes_of(const nlohmann::json& config) {
  if (const auto given = config.find("id2label"); given != config.end() && given->is_object() && !given->empty())
    return static_cast<std::int64_t>(given->size());
  const auto count = config.find("num_labels");
  return count != config.end() && count->is_number_integer() ? count->get<std::int64_t>() : 2;
}

}  // namespace

Classifier Classifier::load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter) {
  Classifier c;
  c.model_ = load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter});
  const auto* text = dynamic_cast<const TextModel*>(c.model_.get());
  const std::string purpose = purpose_of(*c.model_);
  if (purpose.find("transformer classify") == std::string::npos)
    fail(folder.string(), "{} does not classify; {}", architecture_of(*c.model_), purpose);
  const nlohmann::json& config = c.model_->config();
  const std::int64_t classes = text != nullptr ? text->text().labels : classes_of(config);
  c.names_ = label_names(config, classes);
  if (text == nullptr) {
    c.kind_ = Kind::images;
    c.processor_ = ImageProcessor::load(folder);
    return c;
  }
  c.kind_ = text->text().task == TextTask::token_labels ? Kind::tokens : Kind::texts;
  c.tokenizer_ = tokenizer_of(folder);
  const std::int64_t padding = text->text().padding_id.value_or(text->text().padding);
  c.padding_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(padding, 0, text->text().vocabulary - 1));
  // As Hugging Face's pipeline for text classification.
  if (c.kind_ == Kind::texts) {
    if (text->text().problem == ProblemType::regression) c.score_ = Score::value;
    else if (text->text().problem == ProblemType::multi_label || classes == 1) c.score_ = Score::sigmoid;
  }
  return c;
}

void Classifier::check(Kind asked) const {
  if (asked == kind_) return;
  const auto name = [](Kind kind) { return kind == Kind::texts ? "texts" : kind == Kind::tokens ? "the tokens of texts" : "images"; };
  fail("classify", "{} classifies {}, not {}", architecture_of(*model_), name(kind_), name(asked));
}

// logits [classes] → the best `count` of them, all for 0; of equal ones the first comes first.
std::vector<Label> Classifier::best(std::span<const float> logits, std::int64_t count) const {
  if (count < 0) fail("classify", "top_k is {}: expected 0 (all) or more", count);
  expect_finite("classify", logits);
  std::vector<double> scores(logits.begin(), logits.end());
  if (score_ == Score::softmax) {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (double& s : scores) sum += s = std::exp(s - largest);
    for (double& s : scores) s /= sum;
  } else if (score_ == Score::sigmoid) {
    for (double& s : scores) s = 1.0 / (1.0 + std::exp(-s));
  }
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  if (count > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  std::vector<Label> labels;
  for (std::size_t i : order)
    labels.push_back(
        {static_cast<std::int64_t>(i), i < names_.size() ? names_[i] : "LABEL_" + std::to_string(i), static_cast<float>(scores[i])});
  return labels;
}

std::vector<std::vector<Label>> Classifier::texts(Context& ctx, std::span<const std::string> texts, const ClassifyOptions& options) const {
  check(Kind::texts);
  return label(ctx, TextReader(tokenizer_, longest_text(*model_)).read(ctx, texts, options.report), false, options);
}

std::vector<std::vector<Label>> Classifier::pairs(Context& ctx, std::span<const std::string> texts, std::span<const std::string> second,
                                                  const ClassifyOptions& options) const {
  check(Kind::texts);
  if (texts.size() != second.size()) fail("classify", "{} texts and {} second ones: expected pairs", texts.size(), second.size());
  const auto& text = dynamic_cast<const TextModel&>(*model_);
  return label(ctx, TextReader(tokenizer_, longest_text(*model_)).read(ctx, texts, second, options.report), text.text().types > 1, options);
}

// types: the model is told which of two texts a token is of.
std::vector<std::vector<Label>> Classifier::label(Context& ctx, const std::vector<Encoding>& all, bool types,
                                                  const ClassifyOptions& options) const {
  const Inference inference(ctx);
  std::vector<std::vector<Label>> out(all.size());
  for (const std::vector<std::size_t>& batch : text_batches(all, options.batch_tokens)) {
    const PaddedTexts in = padded_texts(ctx, all, batch, padding_);
    NamedTensors inputs{{"input_ids", in.ids}, {"attention_mask", in.mask}};
    if (types) inputs.emplace("token_type_ids", in.types);
    const Tensor logits = cast(ctx, model_->run(ctx, inputs).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.cols());
    for (std::size_t row = 0; row < batch.size(); ++row)
      out[batch[row]] = best(std::span(values).subspan(row * classes, classes), options.top_k);
  }
  return out;
}

std::vector<std::vector<TokenLabels>> Classifier::tokens(Context& ctx, std::span<const std::string> texts,
                                                         const ClassifyOptions& options) const {
  check(Kind::tokens);
  const Inference inference(ctx);
  const std::vector<Encoding> all = TextReader(tokenizer_, longest_text(*model_)).read(ctx, texts, options.report);
  std::vector<std::vector<TokenLabels>> out(texts.size());
  for (const std::vector<std::size_t>& batch : text_batches(all, options.batch_tokens)) {
    const PaddedTexts in = padded_texts(ctx, all, batch, padding_);
    const Tensor logits = cast(ctx, model_->run(ctx, {{"input_ids", in.ids}, {"attention_mask", in.mask}}).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();  // [texts, longest, classes]
    const auto classes = static_cast<std::size_t>(logits.cols()), longest = static_cast<std::size_t>(in.ids.dim(1));
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const Encoding& e = all[batch[row]];
      for (std::size_t i = 0; i < e.size(); ++i) {
        if (e.added[i] != 0) continue;
        const auto scores = std::span(values).subspan((row * longest + i) * classes, classes);
        out[batch[row]].push_back({e.tokens[i], e.places[i], best(scores, options.top_k)});
      }
    }
  }
  return out;
}

std::vector<std::vector<Label>> Classifier::images(Context& ctx, std::span<const Image> images, const ClassifyOptions& options) const {
  check(Kind::images);
  if (options.batch_images < 1) fail("classify", "batch_images is {}: expected 1 or more", options.batch_images);
  const Inference inference(ctx);
  std::vector<std::vector<Label>> out;
  const auto step = static_cast<std::size_t>(options.batch_images);
  for (std::size_t begin = 0; begin < images.size(); begin += step) {
    const auto some = images.subspan(begin, std::min(step, images.size() - begin));
    const Tensor pixels = (*processor_)(ctx, {some.begin(), some.end()});
    const Tensor logits = cast(ctx, model_->run(ctx, {{"pixel_values", pixels}}).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.cols());
    for (std::size_t row = 0; row < some.size(); ++row)
      out.push_back(best(std::span(values).subspan(row * classes, classes), options.top_k));
  }
  return out;
}

}  // namespace transformer
