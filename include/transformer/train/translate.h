#pragma once
// Training a translator from parallel text: the task behind `transformer train translate`.
//
//   TranslateConfig data{.source = "train.en", .target = "train.ko", .valid_source = "valid.en", .valid_target = "valid.ko"};
//   Context ctx({.seed = 1});
//   TranslateTask task(ctx, data, {.d_model = 256, .num_heads = 4}, latest_checkpoint("model"));
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 10}).run();
//
// or a published one, trained further:
//
//   TranslateTask task(ctx, data, FineTuning{.from = "opus-mt-en-ko"});

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transformer/io/config.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/pegasus.h"
#include "transformer/models/transformer.h"
#include "transformer/predict/translator.h"
#include "transformer/text/bleu.h"
#include "transformer/text/parallel.h"
#include "transformer/tokenizers/tokenizer_pair.h"
#include "transformer/train/model_task.h"

namespace transformer {

enum class Subwords : std::uint8_t { bpe, unigram, whitespace };
inline EnumNames<Subwords> names(Subwords) {
  return {{Subwords::bpe, "bpe"}, {Subwords::unigram, "unigram"}, {Subwords::whitespace, "whitespace"}};
}

// The layout of the folder that is saved, and with it some details of the model.
enum class TranslateLayout : std::uint8_t {
  automatic,    // marian or pegasus where the settings have it, else transformer
  marian,       // norms behind the sublayers; Hugging Face and CTranslate2 open it: sinusoids in halves, no bias of the output
  pegasus,      // the same with norms before the sublayers and one vocabulary
  transformer,  // as the original's PyTorch classes have it, with all settings of TransformerConfig
};
inline EnumNames<TranslateLayout> names(TranslateLayout) {
  return {{TranslateLayout::automatic, "auto"},
          {TranslateLayout::marian, "marian"},
          {TranslateLayout::pegasus, "pegasus"},
          {TranslateLayout::transformer, "transformer"}};
}

struct TranslateConfig {
  std::string source, target, tsv;
  std::string valid_source, valid_target, valid_tsv;
  Header header = Header::automatic;
  TranslateLayout arch = TranslateLayout::automatic;
  std::string source_prefix, source_lang, target_lang;
  std::string tokenizer;
  Subwords subwords = Subwords::bpe;
  std::int64_t vocab_size = 8000;
  bool separate_vocabularies = false;
  double character_coverage = 1.0;
  std::string normalization = "nmt_nfkc";
  static constexpr std::int64_t usual_max_tokens = 4096;
  std::int64_t max_tokens = usual_max_tokens;
  std::int64_t max_length = 256;
  double max_ratio = 0.0;
  bool eval_bleu = false;
  std::int64_t eval_beam = 1;
  BleuTokenizer eval_tokenize = BleuTokenizer::v13a;

  static void visit(auto& self, auto&& field) {
    field("source", self.source, "training text, one sentence per line; .gz too");
    field("target", self.target, "its translation, line by line");
    field("tsv", self.tsv, "instead of source and target: one file, source and target separated by a tab (.csv: by a comma or the like)");
    field("valid_source", self.valid_source, "validation text");
    field("valid_target", self.valid_target, "its translation");
    field("valid_tsv", self.valid_tsv, "instead of valid_source and valid_target: one file with tabs");
    field("header", self.header, "whether tsv files begin with the names of their columns (auto: where they look like that)");
    field("source_prefix", self.source_prefix,
          "text put before every source, for models that are told what to do (T5: \"translate English to German: \")");
    field("source_lang", self.source_lang,
          "with --from: language of the source, for models of many: en (M2M100), en_XX (mBART), eng_Latn (NLLB)");
    field("target_lang", self.target_lang, "with --from: language of the target, for models of many");
    field("arch", self.arch,
          "layout of the model: marian (norms behind) or pegasus (norms before), which Hugging Face and CTranslate2 open too; transformer, "
          "which has every setting; auto: one of the first two if possible");
    field("tokenizer", self.tokenizer, "a tokenizer made before, for both languages; empty: one is trained on the training text");
    field("subwords", self.subwords, "kind of vocabulary; whitespace: the text is tokenised already");
    field("vocab_size", self.vocab_size, "pieces of the vocabulary, special tokens included (whitespace: at most)");
    field("separate_vocabularies", self.separate_vocabularies, "one vocabulary a language instead of a joint one");
    field("character_coverage", self.character_coverage, "share of the characters that get a piece");
    field("normalization", self.normalization, "SentencePiece's rule: nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity");
    field("max_tokens", self.max_tokens, "tokens of a batch, on each side (0: 4096, or less where an epoch would have few updates)");
    field("max_length", self.max_length, "leave out pairs with more tokens on a side (0: none)");
    field("max_ratio", self.max_ratio, "leave out pairs with a side this many times longer than the other (0: none)");
    field("eval_bleu", self.eval_bleu, "translate the validation text too and measure BLEU");
    field("eval_beam", self.eval_beam, "beam of those translations");
    field("eval_tokenize", self.eval_tokenize, "BLEU's tokenizer");
  }
};

// A model that is trained further instead of a fresh one: a folder of any family with an encoder and a decoder, Marian, Pegasus, BART,
// T5, M2M100, mBART or the original. Sizes, weights and vocabulary are the folder's; what is saved is of the same family, in float32, with
// the same config.json but for the changes here, and with the files of its tokenizer as they are.
struct FineTuning {
  std::string from = {};
  LoraConfig lora = {};
  // Other dropout than its config.json says. T5 has one for all.
  std::optional<float> dropout = {}, attention_dropout = {}, ffn_dropout = {};
  float label_smoothing = 0.1F;

  static void visit(auto& self, auto&& field) {
    field("from", self.from,
          "train this model further: a folder of a Marian, Pegasus, BART, mBART, M2M100, NLLB or T5 model, or of one trained here. Its "
          "sizes and its vocabulary "
          "stay; so does its dropout, but where a flag sets it");
    LoraConfig::visit(self.lora, field);
  }
};

class TranslateTask : public ModelTask {
 public:
  // Reads the data and makes the vocabulary and the model, with fresh weights. `resumed`: the checkpoint that training will
  // go on from, whose vocabulary is used. The vocabulary sizes in `model` are set here.
  TranslateTask(Context& ctx, const TranslateConfig& config, TransformerConfig model,
                const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model. Settings of `config` about the vocabulary and the layout must have their defaults.
  TranslateTask(Context& ctx, const TranslateConfig& config, const FineTuning& start);
  // The first with text in memory: pairs of training and of validation (may be empty) and a ready vocabulary, which is not looked at
  // when there is a checkpoint.
  struct Text {
    std::vector<std::pair<std::string, std::string>> training, validation;
    TokenizerPair tokenizers;
  };
  TranslateTask(Context& ctx, const Text& text, const TranslateConfig& config, TransformerConfig model,
                const std::optional<std::filesystem::path>& resumed = std::nullopt);

  const PairReport& training_report() const { return training_report_; }
  const PairReport& validation_report() const { return validation_report_; }
  std::shared_ptr<const EncoderDecoder> network() const;
  const TokenizerPair& tokenizers() const { return tokenizers_; }
  Translator translator() const;
  // "marian", or "transformer (positions is "rotary", but a Marian model has "sinusoidal")", or "bart, from FOLDER".
  std::string layout() const;
  const PairDataset& training() const { return *training_; }

  nlohmann::json identity() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  Metrics validate(Context& ctx) override;
  std::vector<std::string> metrics() const override;

 private:
  void save_beside(const std::filesystem::path& folder) const override;
  void build(TransformerConfig model);
  void open(const FineTuning& start);
  // longest: tokens of a side that the model takes. validation: may be empty.
  void read(const PairSource& training, const PairSource& validation, std::int64_t longest);
  // What is in the checkpoint when there is one, else `fresh`, with the ids that the layout wants.
  void take_tokenizers(const std::optional<std::filesystem::path>& resumed, const std::function<TokenizerPair()>& fresh);
  TokenizerPair made_tokenizers() const;
  TranslatorTokens tokens() const;
  bool other_tools() const { return config_.arch != TranslateLayout::transformer; }  // auto is decided at the beginning

  TranslateConfig config_;
  TokenizerPair tokenizers_;
  SpecialTokens target_;  // of the target, as the model has them
  PairReport training_report_, validation_report_;
  std::optional<PairDataset> training_, validation_;
  std::vector<std::string> validation_sources_, validation_references_;  // for BLEU
  TransformerConfig settings_;  // of the model, with its vocabularies; of one that is trained further the label smoothing alone
  std::vector<std::vector<std::int64_t>> plan_;
};

}  // namespace transformer
