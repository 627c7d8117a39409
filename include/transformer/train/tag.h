#pragma once
// Training a model that gives each word of a text a tag: names of people and places (NER), parts of speech. The task behind
// `transformer train tag`.
//
//   Context ctx({.seed = 1});
//   TagTask task(ctx, {.data = "train.conll", .valid = "valid.conll"}, EncoderStart{.from = "bert-base-cased"});
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 3, .lr = 5e-5F, .best_metric = "f1"}).run();
//
// The words of a text are joined by spaces and tokenised as one. The first token of a word carries its tag, the others count for nothing.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "transformer/predict/scores.h"
#include "transformer/text/tagged.h"
#include "transformer/text/token_lists.h"
#include "transformer/train/encoder.h"

namespace transformer {

struct TagConfig {
  std::string data, valid, test;
  TaggedColumns columns = {};
  static constexpr std::int64_t usual_max_tokens = 4096;
  std::int64_t max_tokens = 0;
  std::int64_t max_length = 256;

  static void visit(auto& self, auto&& field) {
    field("data", self.data, "training texts, a word and its tag per line (CoNLL), or JSON lines (.jsonl); .gz too");
    field("valid", self.valid, "validation texts with their tags");
    field("test", self.test, "texts with their tags that the best model is judged by when training ends");
    TaggedColumns::visit(self.columns, field);
    field("max_tokens", self.max_tokens, "tokens of a batch (0: 4096, or less where an epoch would have few updates)");
    field("max_length", self.max_length, "tokens of a text, special ones included; of longer texts the beginning is read");
  }
};

// Texts as tokens, and the tag of each.
struct TaggedTokens {
  static constexpr std::int32_t ignored = -100;  // of tokens that begin no word
  TokenLists tokens, tags;                       // of the same lengths
  std::int64_t words = 0;                        // that have a tag here
  std::int64_t lost = 0;                         // words without a token: cut off, or made of characters that are none
  std::uint64_t fingerprint() const;
};

// The model of a folder on a file: what training measures. Entities where one of the tags is O, else the table of the tags. max_length: as
// in TagConfig; 0: what the model takes. Error for a tag that the model does not know.
Evaluation evaluate_tagger(Context& ctx, const std::filesystem::path& folder, const std::string& file, const TaggedColumns& columns = {},
                           std::int64_t max_length = 0, const std::filesystem::path& adapter = {});

struct TagFiles;

class TagTask : public EncoderTask {
 public:
  // Reads the data and makes the vocabulary and a model with fresh weights. The tags are those of the training texts, sorted. `resumed`:
  // the checkpoint that training will go on from, whose vocabulary is used.
  TagTask(Context& ctx, const TagConfig& config, const EncoderConfig& model, const EncoderVocabulary& vocabulary,
          const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model. One that knows all the tags keeps its head; otherwise it gets a new one.
  TagTask(Context& ctx, const TagConfig& config, const EncoderStart& start);

  const std::vector<std::string>& tags() const { return tags_; }
  const TaggedTokens& training() const { return training_; }
  const TextReport& report() const { return report_; }  // of all texts
  std::int64_t lost() const { return lost_; }           // words without a token, of all texts
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
  void read(const TagFiles& files);

  TagConfig config_;
  std::vector<std::string> tags_;
  TextReport report_;
  std::int64_t lost_ = 0;
  TaggedTokens training_;
  std::optional<TaggedTokens> validation_, test_;
  std::vector<std::vector<std::int64_t>> plan_;
};

}  // namespace transformer
