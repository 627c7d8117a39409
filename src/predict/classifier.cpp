#include "transformer/predict/classifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/shared/loop.h"
#include "io/shared/utf8.h"
#include "models/shared/purpose.h"
#include "predict/finite.h"
#include "predict/shared/text_reader.h"
#include "text/shared/entities.h"
#include "text/shared/words.h"
#include "transformer/core/setting_error.h"
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
  return open(load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter}), folder);
}

Classifier Classifier::open(std::shared_ptr<const Model> model, const std::filesystem::path& folder) {
  Classifier c;
  c.model_ = std::move(model);
  const auto* text = dynamic_cast<const TextModel*>(c.model_.get());
  const Purpose purpose = c.model_->purpose();
  if (purpose != Purpose::text_labels && purpose != Purpose::token_labels && purpose != Purpose::image_labels)
    fail(folder.string(), "{} does not classify texts or images; {}", architecture_of(*c.model_), describe(purpose));
  const nlohmann::json& config = c.model_->config();
  const std::int64_t classes = text != nullptr ? text->text().labels : classes_of(config);
  c.names_ = label_names(config, classes);
  if (purpose == Purpose::image_labels) {
    c.kind_ = Kind::images;
    c.processor_ = ImageProcessor::load(folder);
    return c;
  }
  c.kind_ = purpose == Purpose::token_labels ? Kind::tokens : Kind::texts;
  c.tokenizer_ = tokenizer_of(folder);
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

// logits [classes] → the best of them; of equal ones the first comes first. Numbers stay in their order.
std::vector<Label> Classifier::best(std::span<const float> logits, const ClassifyOptions& options) const {
  const bool several = score_ == Score::sigmoid && logits.size() > 1;
  const std::int64_t count = options.top_k.value_or(several || options.threshold || score_ == Score::value ? 0 : 1);
  if (count < 0) wrong_setting("classify", "top_k", "is {}: expected 0 (all) or more", count);
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
  if (score_ != Score::value) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    const std::optional<float> least = several && !options.top_k && !options.threshold ? std::optional(0.5F) : options.threshold;
    if (least) std::erase_if(order, [&](std::size_t i) { return static_cast<float>(scores[i]) < *least; });
    if (count > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  }
  std::vector<Label> labels;
  for (std::size_t i : order)
    labels.push_back(
        {static_cast<std::int64_t>(i), i < names_.size() ? names_[i] : "LABEL_" + std::to_string(i), static_cast<float>(scores[i])});
  return labels;
}

std::vector<std::vector<Label>> Classifier::texts(Context& ctx, std::span<const std::string> texts, const ClassifyOptions& options) const {
  check(Kind::texts);
  return label(ctx, TextReader(tokenizer_, longest_text(*model_), options.long_texts).read(ctx, texts, options.report), false, options);
}

std::vector<std::vector<Label>> Classifier::pairs(Context& ctx, std::span<const std::string> texts, std::span<const std::string> second,
                                                  const ClassifyOptions& options) const {
  check(Kind::texts);
  if (texts.size() != second.size()) fail("classify", "{} texts and {} second ones: expected pairs", texts.size(), second.size());
  const auto& text = dynamic_cast<const TextModel&>(*model_);
  return label(ctx, TextReader(tokenizer_, longest_text(*model_), options.long_texts).read(ctx, texts, second, options.report),
               text.text().types > 1, options);
}

// types: the model is told which of two texts a token is of.
std::vector<std::vector<Label>> Classifier::label(Context& ctx, const std::vector<Encoding>& all, bool types,
                                                  const ClassifyOptions& options) const {
  const Inference inference(ctx);
  const auto& text = dynamic_cast<const TextModel&>(*model_);
  std::vector<std::vector<Label>> out(all.size());
  for (const std::vector<std::size_t>& batch : text_batches(all, options.batch_tokens)) {
    const Tensor logits = cast(ctx, text.label_logits(ctx, packed_texts(all, batch, types)), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.cols());
    for (std::size_t row = 0; row < batch.size(); ++row) out[batch[row]] = best(std::span(values).subspan(row * classes, classes), options);
  }
  return out;
}

std::vector<std::vector<TokenLabels>> Classifier::tokens(Context& ctx, std::span<const std::string> texts,
                                                         const ClassifyOptions& options) const {
  check(Kind::tokens);
  const Inference inference(ctx);
  const auto& text = dynamic_cast<const TextModel&>(*model_);
  const std::vector<Encoding> all = TextReader(tokenizer_, longest_text(*model_), options.long_texts).read(ctx, texts, options.report);
  std::vector<std::vector<TokenLabels>> out(texts.size());
  for (const std::vector<std::size_t>& batch : text_batches(all, options.batch_tokens)) {
    const Tensor logits = cast(ctx, text.label_logits(ctx, packed_texts(all, batch)), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();  // [tokens, classes]
    const auto classes = static_cast<std::size_t>(logits.cols());
    std::size_t at = 0;
    for (const std::size_t chosen : batch) {
      const Encoding& e = all[chosen];
      for (std::size_t i = 0; i < e.size(); ++i, at += classes)
        if (e.added[i] == 0) out[chosen].push_back({e.tokens[i], e.places[i], best(std::span(values).subspan(at, classes), options)});
    }
  }
  return out;
}

std::vector<std::vector<TokenLabels>> Classifier::words(Context& ctx, std::span<const std::string> texts,
                                                        const ClassifyOptions& options) const {
  std::vector<std::string> repaired(texts.begin(), texts.end());
  std::int64_t replaced = 0;
  for (std::string& text : repaired)
    if (!is_valid_utf8(text)) text = sanitize_utf8(text, replaced);
  const auto all = tokens(ctx, repaired, options);
  if (options.report != nullptr) options.report->invalid_utf8 += replaced;
  std::vector<std::vector<TokenLabels>> out(texts.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<TokenPlace> places;
    for (const TokenLabels& token : all[i]) places.push_back(token.place);
    const std::vector<TokenPlace> words = split_words(repaired[i]);
    const std::vector<std::int64_t> first = first_tokens(places, words);
    for (std::size_t word = 0; word < words.size(); ++word) {
      if (first[word] < 0) continue;
      const TokenPlace& place = words[word];
      out[i].push_back({repaired[i].substr(static_cast<std::size_t>(place.begin), static_cast<std::size_t>(place.end - place.begin)), place,
                        all[i][static_cast<std::size_t>(first[word])].labels});
    }
  }
  return out;
}

std::vector<std::vector<FoundEntity>> Classifier::entities(Context& ctx, std::span<const std::string> texts,
                                                           const ClassifyOptions& options) const {
  ClassifyOptions best_tag = options;
  best_tag.top_k = 1, best_tag.threshold.reset();
  const auto all = words(ctx, texts, best_tag);
  std::vector<std::vector<FoundEntity>> out(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> tags;
    for (const TokenLabels& word : all[i]) tags.push_back(word.labels.front().name);
    for (const Entity& entity : entities_of(tags)) {
      FoundEntity found{.type = entity.type, .place = {all[i][entity.begin].place.begin, all[i][entity.end - 1].place.end}};
      for (std::size_t w = entity.begin; w < entity.end; ++w) {
        if (w > entity.begin && all[i][w].place.begin > all[i][w - 1].place.end) found.text += ' ';
        found.text += all[i][w].token;
        found.score += all[i][w].labels.front().score / static_cast<float>(entity.end - entity.begin);
      }
      if (!options.threshold || found.score >= *options.threshold) out[i].push_back(std::move(found));
    }
  }
  return out;
}

std::vector<std::vector<Label>> Classifier::images(Context& ctx, std::span<const Image> images, const ClassifyOptions& options) const {
  check(Kind::images);
  if (options.batch_images < 1) wrong_setting("classify", "batch_images", "is {}: expected 1 or more", options.batch_images);
  const Inference inference(ctx);
  std::vector<std::vector<Label>> out;
  const auto step = static_cast<std::size_t>(options.batch_images);
  for (std::size_t begin = 0; begin < images.size(); begin += step) {
    const auto some = images.subspan(begin, std::min(step, images.size() - begin));
    const Tensor pixels = (*processor_)(ctx, {some.begin(), some.end()});
    const Tensor logits = cast(ctx, model_->run(ctx, {{"pixel_values", pixels}}).at("logits"), DType::float32);
    const std::vector<float> values = logits.to_vector<float>();
    const auto classes = static_cast<std::size_t>(logits.cols());
    for (std::size_t row = 0; row < some.size(); ++row) out.push_back(best(std::span(values).subspan(row * classes, classes), options));
  }
  return out;
}

}  // namespace transformer
