#pragma once
// Training a model that tells what texts are: a class each, several labels, or numbers. The task behind `transformer train classify`.
//
//   ClassifyConfig data{.data = "train.tsv", .valid = "valid.tsv"};
//   Context ctx({.seed = 1});
//   ClassifyTask task(ctx, data, EncoderStart{.from = "bert-base-uncased"});
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 3, .lr = 5e-5}).run();
//
// or from nothing, with a vocabulary of its own:
//
//   ClassifyTask task(ctx, data, EncoderConfig{.d_model = 128}, EncoderVocabulary{.vocab_size = 4000}, latest_checkpoint("model"));

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transformer/predict/scores.h"
#include "transformer/text/labelled.h"
#include "transformer/text/token_lists.h"
#include "transformer/train/encoder.h"

namespace transformer {

inline EnumNames<ProblemType> names(ProblemType) {
  return {{ProblemType::by_labels, "auto"},
          {ProblemType::single_label, "single_label"},
          {ProblemType::multi_label, "multi_label"},
          {ProblemType::regression, "regression"}};
}

struct ClassifyConfig {
  std::string data, valid, test;
  LabelledColumns columns = {};
  ProblemType problem_type = ProblemType::by_labels;
  std::string class_weights = "none";
  static constexpr std::int64_t usual_max_tokens = 4096;
  std::int64_t max_tokens = 0;
  std::int64_t max_length = 256;

  static void visit(auto& self, auto&& field) {
    field("data", self.data, "training texts with their labels: TSV or JSON lines (.jsonl); .gz too");
    field("valid", self.valid, "validation texts with their labels");
    field("test", self.test, "texts with their labels that the best model is judged by when training ends");
    LabelledColumns::visit(self.columns, field);
    field("problem_type", self.problem_type,
          "what is learned: a class per text, any number of labels, or numbers (auto: labels in lists, or between separators, are several; "
          "numbers that are not all whole are numbers; else classes)");
    field("class_weights", self.class_weights,
          "what an error costs, by class: none, balanced (rare classes as much as frequent ones), or a number a class, in the order of "
          "their names: 1,5,2");
    field("max_tokens", self.max_tokens, "tokens of a batch (0: 4096, or less where an epoch would have few updates)");
    field("max_length", self.max_length, "tokens of a text, special ones included; of longer texts the beginning is read");
  }
};

// Texts as tokens, and their labels.
struct LabelledTokens {
  TokenLists tokens;
  std::vector<std::int32_t> second;  // of pairs: tokens before the second text; else empty
  TokenLists labels;                 // the classes of each text: one or, for multi_label, any number
  std::vector<float> values;         // regression: the numbers of each text, text by text
  std::uint64_t fingerprint() const;
};

// The model of a folder on a file: what training measures. max_length: as in ClassifyConfig; 0: what the model takes. Error for a class
// that the model does not know.
Evaluation evaluate_classifier(Context& ctx, const std::filesystem::path& folder, const std::string& file,
                               const LabelledColumns& columns = {}, std::int64_t max_length = 0, const std::filesystem::path& adapter = {});

struct ClassifyFiles;
struct LabelHead;

class ClassifyTask : public EncoderTask {
 public:
  // Reads the data and makes the vocabulary and a model with fresh weights. The classes are those of the training texts, sorted.
  // `resumed`: the checkpoint that training will go on from, whose vocabulary is used.
  ClassifyTask(Context& ctx, const ClassifyConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
               const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model. A classifier that knows all the classes keeps its head, and so does one that gives as many
  // numbers; otherwise it gets a new one.
  ClassifyTask(Context& ctx, const ClassifyConfig& config, const EncoderStart& start);

  ProblemType problem() const;                                           // never by_labels
  const std::vector<std::string>& classes() const;                       // their names, or LABEL_0 … for numbers
  const std::vector<std::int64_t>& samples() const { return samples_; }  // training texts of each class
  std::pair<double, double> spread() const;                              // of the training texts' numbers: mean, standard deviation
  const TextReport& report() const { return report_; }                   // of all texts
  std::int64_t training_texts() const { return training_.tokens.count(); }
  std::int64_t validation_texts() const { return validation_ ? validation_->tokens.count() : 0; }

  // On the test texts, or on those of validation where there are none; nothing when there are neither.
  std::optional<Evaluation> test(Context& ctx) const;

  TaskWords words() const override { return {.perplexity = false}; }
  nlohmann::json identity() const override;
  nlohmann::json evaluation() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  Metrics validate(Context& ctx) override;  // those of Evaluation
  std::vector<std::string> metrics() const override;

 private:
  void read(const ClassifyFiles& files);

  ClassifyConfig config_;
  std::shared_ptr<LabelHead> head_;
  std::vector<std::int64_t> samples_;
  std::vector<float> weights_;  // of the classes; their mean over the training texts is 1. Empty: all 1
  TextReport report_;
  LabelledTokens training_;
  std::optional<LabelledTokens> validation_, test_;
  std::vector<std::vector<std::int64_t>> plan_;
};

}  // namespace transformer
