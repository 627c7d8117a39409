#pragma once
// What the tasks that train an encoder of text share: a fresh BERT, RoBERTa or DistilBERT with a vocabulary of its own, or the folder
// of a ready one, with its head or another.

#include <optional>
#include <string>

#include "transformer/io/config.h"
#include "transformer/models/text.h"
#include "transformer/predict/text_report.h"
#include "transformer/tokenizers/encoder_tokenizer.h"
#include "transformer/train/model_task.h"

namespace transformer {

enum class EncoderArch : std::uint8_t { bert, roberta, distilbert };
inline EnumNames<EncoderArch> names(EncoderArch) {
  return {{EncoderArch::bert, "bert"}, {EncoderArch::roberta, "roberta"}, {EncoderArch::distilbert, "distilbert"}};
}

// A fresh encoder.
struct EncoderConfig {
  EncoderArch arch = EncoderArch::bert;
  std::int64_t d_model = 256, num_heads = 4, num_layers = 4, d_ff = 1024;
  float dropout = 0.1F, attention_dropout = 0.1F;
  std::string tokenizer = {};

  static void visit(auto& self, auto&& field) {
    field("arch", self.arch, "family of the model, and so the layout of its folder, which Hugging Face opens too");
    field("d_model", self.d_model, "width of the model");
    field("num_heads", self.num_heads, "heads of attention");
    field("num_layers", self.num_layers, "layers");
    field("d_ff", self.d_ff, "width inside the feed-forward layers");
    field("dropout", self.dropout, "dropout of embeddings and of what layers add");
    field("attention_dropout", self.attention_dropout, "dropout of the weights of attention");
    field("tokenizer", self.tokenizer,
          "a tokenizer.json made before, or the folder that has it; empty: one is made from the training text");
  }
};

// A folder that training goes on from instead: sizes, weights and vocabulary are its own. Its dropout stays but where it is given here.
struct EncoderStart {
  std::string from = {};
  LoraConfig lora = {};
  std::optional<float> dropout = {}, attention_dropout = {};

  static void visit(auto& self, auto&& field) {
    field("from", self.from,
          "train this model further: a folder of a BERT, RoBERTa or DistilBERT model with any head. Its sizes and its vocabulary stay; so "
          "does its dropout, but where a flag sets it");
    LoraConfig::visit(self.lora, field);
  }
};

// config.json of a fresh encoder. head: "ForMaskedLM", "ForSequenceClassification"; longest: tokens that a text may have.
nlohmann::json encoder_config(const EncoderConfig& config, const std::string& head, const Tokenizer& tokenizer, std::int64_t longest);

class EncoderTask : public ModelTask {
 public:
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TextModel& network() const;
  std::int64_t longest() const { return longest_; }  // tokens of a text, special ones included
  // "bert", or "roberta, from FOLDER".
  std::string layout() const;

 protected:
  using ModelTask::ModelTask;

  // The vocabulary of a fresh model: the one that `config` names, that of the checkpoint a run goes on from, or a new one from `lines`.
  void make_tokenizer(const EncoderConfig& config, const EncoderVocabulary& vocabulary, const LineSource& lines,
                      const std::optional<std::filesystem::path>& resumed);
  // A fresh model; more: further keys of config.json.
  void build(const EncoderConfig& config, const std::string& head, std::int64_t max_length, const nlohmann::json& more = {});
  // That folder's model with this head. more: further keys of config.json, given what it has; null: its head stays as it is.
  void open(const EncoderStart& start, const std::string& head, std::int64_t max_length,
            const std::function<nlohmann::json(const nlohmann::json& config)>& more);

  // Of the model and the vocabulary: what identity() begins with.
  nlohmann::json encoder_identity() const;
  const TokenizerPtr& shared_tokenizer() const { return tokenizer_; }
  void save_beside(const std::filesystem::path& folder) const override;

 private:
  void set_longest(std::int64_t max_length);

  TokenizerPtr tokenizer_;
  EncoderVocabulary vocabulary_;
  bool made_here_ = false;  // the tokenizer, now or in the run that is resumed
  std::int64_t longest_ = 0;
};

}  // namespace transformer
