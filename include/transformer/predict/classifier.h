#pragma once
// A model that tells what a text or an image is, or each token of a text.
//
//   Context ctx;
//   Classifier classifier = Classifier::load(ctx, "distilbert-sst2");
//   std::vector<std::string> texts{"A great film.", "A waste of time."};
//   auto labels = classifier.texts(ctx, texts);
//   fmt::print("{} {}\n", labels[0][0].name, labels[0][0].score);

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transformer/models/model.h"
#include "transformer/predict/text_report.h"
#include "transformer/tokenizers/tokenizer.h"
#include "transformer/vision/processor.h"

namespace transformer {

struct Label {
  std::int64_t id = 0;
  std::string name = {};  // of id2label
  // Its probability: among all classes, or, where a sample may have several labels, on its own. For regression the value itself.
  float score = 0.0F;
};

// The labels of a token or of a word, and where it stands in its text.
struct TokenLabels {
  std::string token = {};
  TokenPlace place = {};
  std::vector<Label> labels = {};
};

// A name that was found in a text: words that belong together.
struct FoundEntity {
  std::string type = {}, text = {};
  TokenPlace place = {};
  float score = 0.0F;  // the mean probability of its words' tags
};

struct ClassifyOptions {
  // Labels given, best first; 0: all. None: one, but all that reach the threshold where a text may have several. Of numbers all are given.
  std::optional<std::int64_t> top_k = {};
  std::optional<float> threshold = {};  // the least probability of a label that is given; none: 0.5 where a text may have several
  std::int64_t batch_tokens = 4096;     // of texts that are computed together
  std::int64_t batch_images = 16;       // that are
  LongTexts long_texts = LongTexts::cut;
  TextReport* report = nullptr;  // what was odd about the texts
};

class Classifier {
 public:
  enum class Kind : std::uint8_t { texts, tokens, images };

  // A folder with a …ForSequenceClassification and its tokenizer, a …ForTokenClassification and its tokenizer, or a
  // …ForImageClassification and its preprocessor_config.json. Error for other models says what they are for.
  static Classifier load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter = {});
  // The same of a model that is loaded already, from this folder: others may share it.
  static Classifier open(std::shared_ptr<const Model> model, const std::filesystem::path& folder);

  Kind kind() const { return kind_; }
  const Model& model() const { return *model_; }
  const ImageProcessor& processor() const { return *processor_; }   // of images
  const std::vector<std::string>& names() const { return names_; }  // of the classes
  bool gives_numbers() const { return score_ == Score::value; }     // instead of classes: a regression

  // The labels of each, best first, in the order they were given. Each is for its kind: Error otherwise.
  std::vector<std::vector<Label>> texts(Context& ctx, std::span<const std::string> texts, const ClassifyOptions& options = {}) const;
  // Texts in pairs (a question and an answer, two sentences): second[i] belongs to texts[i].
  std::vector<std::vector<Label>> pairs(Context& ctx, std::span<const std::string> texts, std::span<const std::string> second,
                                        const ClassifyOptions& options = {}) const;
  std::vector<std::vector<TokenLabels>> tokens(Context& ctx, std::span<const std::string> texts, const ClassifyOptions& options = {}) const;
  // Of the same models, the words of each text (split_words) with the labels of their first tokens, as training on words has it; those that
  // have no token, as behind the end of what the model takes, are left out. The labels of the words as entities (entities_of).
  std::vector<std::vector<TokenLabels>> words(Context& ctx, std::span<const std::string> texts, const ClassifyOptions& options = {}) const;
  std::vector<std::vector<FoundEntity>> entities(Context& ctx, std::span<const std::string> texts,
                                                 const ClassifyOptions& options = {}) const;
  std::vector<std::vector<Label>> images(Context& ctx, std::span<const Image> images, const ClassifyOptions& options = {}) const;

 private:
  enum class Score : std::uint8_t { softmax, sigmoid, value };
  Classifier() = default;
  void check(Kind asked) const;
  std::vector<std::vector<Label>> label(Context& ctx, const std::vector<Encoding>& texts, bool types, const ClassifyOptions& options) const;
  std::vector<Label> best(std::span<const float> logits, const ClassifyOptions& options) const;

  std::shared_ptr<const Model> model_;
  Kind kind_ = Kind::texts;
  Score score_ = Score::softmax;
  std::vector<std::string> names_;
  TokenizerPtr tokenizer_;                   // of texts
  std::optional<ImageProcessor> processor_;  // of images
};

}  // namespace transformer
