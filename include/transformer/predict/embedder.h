#pragma once
// Vectors of texts: texts that mean the same lie near each other, if the model was trained for it.
//
//   Context ctx;
//   Embedder embedder = Embedder::load(ctx, "all-MiniLM-L6-v2");
//   std::vector<std::string> texts{"나는 학교에 간다", "I go to school"};
//   Tensor vectors = embedder.embed(ctx, texts);   // [2, 384] float32

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "transformer/io/config.h"
#include "transformer/models/text.h"
#include "transformer/predict/text_report.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// How the vectors of a text's tokens become one.
enum class Pooling : std::uint8_t {
  mean,    // of all tokens, special ones too
  cls,     // the first token's
  last,    // the last token's, which in a decoder has seen all others
  pooler,  // the first token's, through the model's pooler (BERT)
};
inline EnumNames<Pooling> names(Pooling) {
  return {{Pooling::mean, "mean"}, {Pooling::cls, "cls"}, {Pooling::last, "last"}, {Pooling::pooler, "pooler"}};
}

struct EmbedOptions {
  Pooling pooling = Pooling::mean;
  bool normalize = false;            // to length 1
  std::int64_t batch_tokens = 4096;  // of texts that are computed together
  LongTexts long_texts = LongTexts::cut;
  TextReport* report = nullptr;  // what was odd about the texts
};

class Embedder {
 public:
  // A folder of an encoder or decoder of text, with whatever head, or of an encoder-decoder, of which the encoder is used. What
  // sentence-transformers has written beside it (modules.json, sentence_bert_config.json) is honoured or refused by name.
  static Embedder load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter = {});
  // The same of a model that is loaded already, from this folder: others may share it.
  static Embedder open(std::shared_ptr<const Model> model, const std::filesystem::path& folder);

  std::int64_t size() const { return size_; }                 // of a vector
  const EmbedOptions& defaults() const { return defaults_; }  // what the folder says, or the mean

  // float32 [texts, size], in the order of the texts.
  Tensor embed(Context& ctx, std::span<const std::string> texts, const EmbedOptions& options) const;
  Tensor embed(Context& ctx, std::span<const std::string> texts) const { return embed(ctx, texts, defaults_); }

 private:
  Embedder() = default;
  Tensor hidden(Context& ctx, const PackedTexts& texts) const;  // [tokens, size]
  Tensor pooled(Context& ctx, const PackedTexts& texts) const;  // [texts, size]

  std::shared_ptr<const Model> model_;
  TokenizerPtr tokenizer_;
  EmbedOptions defaults_;
  std::int64_t size_ = 0, longest_ = 0;
  std::int32_t end_ = -1;  // put behind every text where the tokenizer does not do it
};

}  // namespace transformer
