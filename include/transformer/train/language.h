#pragma once
// Training a language model on text: the task behind `transformer train lm`.
//
//   Context ctx({.seed = 1});
//   LanguageTask task(ctx, {.text = {"shakespeare.txt"}, .vocab = "char", .context = 64}, {.d_model = 128, .num_heads = 4});
//   Trainer(ctx, task, {.save_dir = "model", .max_update = 2000}).run();
//
// or a published one, trained further on other text, with its own vocabulary:
//
//   LanguageTask task(ctx, {.text = {"poems.txt"}, .context = 512}, LanguageStart{.from = "gpt2"});

#include <optional>
#include <string>
#include <vector>

#include "transformer/models/text.h"
#include "transformer/text/documents.h"
#include "transformer/text/token_row.h"
#include "transformer/train/model_task.h"

namespace transformer {

// Which family of Hugging Face the model is of.
enum class LanguageArch : std::uint8_t { gpt2, llama };
inline EnumNames<LanguageArch> names(LanguageArch) { return {{LanguageArch::gpt2, "gpt2"}, {LanguageArch::llama, "llama"}}; }

// How an epoch's windows are taken from the row of tokens.
enum class WindowOrder : std::uint8_t {
  random,    // anywhere, as many as fit side by side: what nanoGPT does
  shuffled,  // side by side, from another offset each epoch, in random order: each token once
};
inline EnumNames<WindowOrder> names(WindowOrder) { return {{WindowOrder::random, "random"}, {WindowOrder::shuffled, "shuffled"}}; }

// Sizes of a fresh model.
struct LanguageModelConfig {
  LanguageArch arch = LanguageArch::gpt2;
  std::int64_t d_model = 384;
  std::int64_t num_heads = 6;
  std::int64_t num_kv_heads = 0;
  std::int64_t num_layers = 6;
  std::int64_t d_ff = 0;
  float dropout = 0.0F;
  std::optional<float> attention_dropout = {};
  std::optional<bool> tie_embeddings = {};

  static void visit(auto& self, auto&& field) {
    field("arch", self.arch, "gpt2: learned positions, LayerNorm, GELU; llama: rotary positions, RMSNorm, SwiGLU");
    field("d_model", self.d_model, "width of the model");
    field("num_heads", self.num_heads, "attention heads");
    field("num_kv_heads", self.num_kv_heads, "llama: heads of keys and values, shared by groups of heads (0: as many as heads)");
    field("num_layers", self.num_layers, "layers");
    field("d_ff", self.d_ff, "width of the feed-forward layers (0: 4·d_model; llama: 8/3·d_model, rounded up to a multiple of 64)");
    field("dropout", self.dropout, "gpt2: of embeddings, of each sublayer, and of attention weights where attention_dropout is not set");
    field("attention_dropout", self.attention_dropout, "of the attention weights");
    field("tie_embeddings", self.tie_embeddings, "the output uses the embeddings of the tokens (none: gpt2 yes, llama no)");
  }
};
// The config.json of such a model. end: the id of the token between documents, -1: none.
nlohmann::json language_model_json(const LanguageModelConfig& config, std::int64_t vocabulary, std::int64_t context, std::int32_t end);

struct LanguageConfig {
  std::vector<std::string> text = {};
  std::string bin = {};
  std::vector<std::string> valid_text = {};
  std::string valid_bin = {};
  double valid_split = 0.1;
  Documents documents = Documents::file;
  std::string vocab = "char";
  std::int64_t vocab_size = 8000;
  double character_coverage = 1.0;
  std::int64_t context = 256;
  static constexpr std::int64_t usual_batch_size = 64;
  std::int64_t batch_size = usual_batch_size;
  WindowOrder windows = WindowOrder::random;
  bool document_mask = false;

  static void visit(auto& self, auto&& field) {
    field("text", self.text, "training text, plain or gzip; several files are joined");
    field("bin", self.bin, "instead of text: tokens of 'transformer tokenize --to-bin', read from the disk as they are needed");
    field("valid_text", self.valid_text, "validation text");
    field("valid_bin", self.valid_bin, "instead of valid_text: a file of tokens");
    field("valid_split", self.valid_split, "without validation text: this share of the training text, its end, is kept for it (0: none)");
    field("documents", self.documents, "what a document is; the end-of-text token stands between two");
    field("vocab", self.vocab, "char, byte, bpe, unigram, or a tokenizer's file or folder");
    field("vocab_size", self.vocab_size, "tokens of bpe and unigram");
    field("character_coverage", self.character_coverage, "bpe and unigram: share of the characters that get a piece; others are bytes");
    field("context", self.context, "tokens that the model sees at once: the length of a window");
    field("batch_size", self.batch_size, "windows of a batch (0: 64, or less where an epoch would have few updates)");
    field("windows", self.windows, "random: anywhere in the text; shuffled: side by side, each token once an epoch");
    field("document_mask", self.document_mask, "tokens see only those of their own document");
  }
};

// A model that is trained further: any folder of a decoder (GPT-2, LLaMA, Mistral, Qwen2, Falcon).
struct LanguageStart {
  std::string from = {};
  LoraConfig lora = {};
  std::optional<float> dropout = {}, attention_dropout = {};  // others than its config.json says

  static void visit(auto& self, auto&& field) {
    field("from", self.from, "train this model further: its sizes and its vocabulary stay; so does its dropout, but where a flag sets it");
    LoraConfig::visit(self.lora, field);
  }
};

// What was read.
struct CorpusReport {
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
  std::int64_t unknown = 0;       // tokens
  std::int64_t invalid_utf8 = 0;  // sequences of bytes that became U+FFFD
};

// How well a model knows a text.
struct TextScore {
  double loss = 0.0;  // mean of −log p(token | those before it in its window)
  std::int64_t tokens = 0, text_bytes = 0;

  double perplexity() const;
  double bits_per_byte() const;  // of the text: loss · tokens / ln 2 / bytes, whatever the vocabulary. NaN where the bytes are unknown
};
// Over windows side by side, so that every token but the first is predicted once. boundary: the token that begins a document, whose
// tokens see nothing before it; -1: all see all.
TextScore score_tokens(Context& ctx, const TextModel& model, const TokenRow& tokens, std::int64_t context, std::int32_t boundary = -1);

// The tokens of text files, in memory, and what was read. The end token, where there is one (not -1), stands between documents.
TokenRow read_tokens(const std::vector<std::string>& files, Documents documents, const Tokenizer& tokenizer, std::int32_t end,
                     CorpusReport& report, int threads = 0);

class LanguageTask : public ModelTask {
 public:
  // Reads the data and makes the vocabulary and the model, with fresh weights. `resumed`: the checkpoint that training will go on
  // from, whose vocabulary is used.
  LanguageTask(Context& ctx, const LanguageConfig& config, const LanguageModelConfig& model,
               const std::optional<std::filesystem::path>& resumed = std::nullopt);
  // Goes on from the weights of another model. Settings of `config` about the vocabulary must have their defaults.
  LanguageTask(Context& ctx, const LanguageConfig& config, const LanguageStart& start);

  const CorpusReport& training_report() const { return training_report_; }
  const CorpusReport& validation_report() const { return validation_report_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenRow& training() const { return training_; }
  const TokenRow& validation() const { return validation_; }

  nlohmann::json identity() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  Metrics validate(Context& ctx) override;
  std::vector<std::string> metrics() const override;

 private:
  void save_beside(const std::filesystem::path& folder) const override;
  void read(const std::optional<std::filesystem::path>& resumed);
  void check_rows() const;
  const TextModel& text_model() const;

  LanguageConfig config_;
  TokenizerPtr tokenizer_;
  std::int32_t end_ = -1;  // the token between documents
  CorpusReport training_report_, validation_report_;
  TokenRow training_, validation_;
  std::int64_t epoch_ = 0, windows_ = 0, offset_ = 0;
  std::vector<std::int64_t> order_;  // of windows side by side
};

}  // namespace transformer
