#pragma once
// Looks inside a model of any family: of text, translating, of images, of series.
//
//   Context ctx;
//   Explainer explainer = Explainer::load(ctx, "gpt2");
//   Explanation seen = explainer.text(ctx, "The cat sat on the");
//
// The server's /explain, and whoever wants the same answers:
//
//   nlohmann::json answer = explainer.answer(ctx, {{"text", "The cat sat on the"}, {"layer", 2}, {"head", 0}});

#include <filesystem>
#include <memory>
#include <optional>

#include "transformer/explain/explanation.h"
#include "transformer/predict/classifier.h"
#include "transformer/predict/forecaster.h"
#include "transformer/predict/translator.h"

namespace transformer {

struct ExplainOptions {
  std::int64_t top = 50;                      // choices of each prediction
  std::int64_t beams = 4;                     // of the search for a translation; so many are told
  std::optional<std::string> target = {};     // the translation to look at, instead of the one that is found
  std::vector<std::int32_t> target_ids = {};  // the same as tokens: all that the decoder reads
  std::int64_t channel = 0;                   // of a series: the one that attention is shown of
  std::int64_t longest = 1024;                // tokens that are looked at; more are an Error
};

class Explainer {
 public:
  // model: as load_model(ctx, folder) gives it; it may be shared with whatever else uses it. What the folder has beside it, such as a
  // tokenizer, is read from there; without one, tokens are given as ids.
  Explainer(std::shared_ptr<const Model> model, const std::filesystem::path& folder);
  static Explainer load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter = {});

  const Model& model() const { return *model_; }
  const Forecaster* forecaster() const { return forecaster_ ? &*forecaster_ : nullptr; }  // of a model that forecasts
  // What it takes: text, translation (a text, and perhaps a target), image, series.
  std::string kind() const;

  // Each for models of its kind; Error otherwise.
  Explanation text(Context& ctx, const std::string& text, const ExplainOptions& options = {}) const;
  Explanation tokens(Context& ctx, std::span<const std::int32_t> ids, const ExplainOptions& options = {}) const;
  Explanation image(Context& ctx, const Image& image, const ExplainOptions& options = {}) const;
  Explanation series(Context& ctx, const SeriesTable& table, const ExplainOptions& options = {}) const;

  // A request and its answer as JSON (docs/explain.md). Error says what is wrong with the request.
  nlohmann::json answer(Context& ctx, const nlohmann::json& request) const;

 private:
  Explanation of_kind(std::string_view kind) const;
  std::vector<SeenToken> seen_tokens(const Tokenizer* tokenizer, std::span<const std::int32_t> ids) const;
  std::vector<SeenChoice> choices(std::span<const float> logits, const Tokenizer* tokenizer, std::int64_t top) const;
  Explanation plain(Context& ctx, std::span<const std::int32_t> ids, const ExplainOptions& options) const;
  Explanation pair(Context& ctx, std::span<const std::int32_t> source, std::vector<std::int32_t> target,
                   const ExplainOptions& options) const;

  std::shared_ptr<const Model> model_;
  TokenizerPair tokenizers_;                 // null where the folder has none
  std::optional<Translator> translator_;     // of models that translate, with tokenizers
  std::optional<Classifier> classifier_;     // of models that classify
  std::optional<ImageProcessor> processor_;  // of models of images
  std::optional<Forecaster> forecaster_;     // of models that forecast
};

}  // namespace transformer
