#include "transformer/predict/embedder.h"

#include <algorithm>
#include <cmath>

#include "generate/shared/loop.h"
#include "models/shared/purpose.h"
#include "predict/finite.h"
#include "predict/sentence_modules.h"
#include "predict/shared/text_reader.h"
#include "transformer/core/error.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/text.h"
#include "transformer/ops/shape.h"

namespace transformer {

Embedder Embedder::load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter) {
  return open(load_model(ctx, folder, {.dtype = ctx.precision(), .adapter = adapter}), folder);
}

Embedder Embedder::open(std::shared_ptr<const Model> model, const std::filesystem::path& folder) {
  Embedder e;
  e.model_ = std::move(model);
  const auto* text = dynamic_cast<const TextModel*>(e.model_.get());
  const auto* seq2seq = dynamic_cast<const EncoderDecoderModel*>(e.model_.get());
  if (text == nullptr && seq2seq == nullptr)
    fail(folder.string(), "{} does not read text; {}", architecture_of(*e.model_), describe(e.model_->purpose()));
  e.size_ = text != nullptr ? text->text().stack.d_model : seq2seq->network.encoder.stack.config.d_model;
  e.tokenizer_ = tokenizer_of(folder);
  if (seq2seq != nullptr && e.tokenizer_->kind() != "huggingface") e.end_ = e.tokenizer_->eos();
  const SentenceModules modules = read_sentence_modules(folder);
  e.defaults_ = modules.options;
  const std::int64_t possible = longest_text(*e.model_);
  e.longest_ = modules.longest > 0 && possible > 0 ? std::min(modules.longest, possible) : std::max(modules.longest, possible);
  if (e.end_ >= 0 && e.longest_ > 0) --e.longest_;
  return e;
}

Tensor Embedder::hidden(Context& ctx, const PackedTexts& texts) const {
  const auto* text = dynamic_cast<const TextModel*>(model_.get());
  if (text == nullptr) {
    const Sequences sequences(texts.lengths);
    const Tensor ids = Tensor::from<std::int64_t>(ctx, {sequences.total()}, texts.ids);
    return cast(ctx, dynamic_cast<const EncoderDecoderModel&>(*model_).network.encoder(ctx, ids, sequences), DType::float32);
  }
  return cast(ctx, text->hidden(ctx, text->input_of(ctx, texts)), DType::float32);
}

Tensor Embedder::pooled(Context& ctx, const PackedTexts& texts) const {
  const auto* text = dynamic_cast<const TextModel*>(model_.get());
  if (text == nullptr || !text->has_pooler()) fail("embed", "{} has no pooler: choose mean or cls", architecture_of(*model_));
  return cast(ctx, text->pooler_output(ctx, texts), DType::float32);
}

Tensor Embedder::embed(Context& ctx, std::span<const std::string> texts, const EmbedOptions& options) const {
  const Inference inference(ctx);
  const std::vector<Encoding> all = TextReader(tokenizer_, longest_, options.long_texts).read(ctx, texts, options.report);
  std::vector<float> vectors(texts.size() * static_cast<std::size_t>(size_), 0.0F);
  for (const std::vector<std::size_t>& batch : text_batches(all, options.batch_tokens)) {
    PackedTexts packed = packed_texts(all, batch);
    const bool pooler = options.pooling == Pooling::pooler;
    if (end_ >= 0) {  // behind each text
      PackedTexts ended;
      for (const std::size_t i : batch) {
        std::vector<std::int32_t> ids = all[i].ids;
        ids.push_back(end_);
        ended.add(ids);
      }
      packed = std::move(ended);
    }
    const Sequences sequences(packed.lengths);
    const Tensor x = pooler ? pooled(ctx, packed) : hidden(ctx, packed);
    const std::vector<float> values = x.to_vector<float>();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto text = static_cast<std::int64_t>(row);
      const std::int64_t length = sequences.length(text);
      // The rows of x whose mean it is.
      std::int64_t first = pooler ? text : sequences.begin(text), count = 1;
      if (options.pooling == Pooling::mean) count = length;
      if (options.pooling == Pooling::last) first += length - 1;
      float* to = vectors.data() + static_cast<std::int64_t>(batch[row]) * size_;
      double norm = 0.0;
      for (std::int64_t d = 0; d < size_; ++d) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[static_cast<std::size_t>((first + i) * size_ + d)]);
        to[d] = static_cast<float>(sum / static_cast<double>(count));
        norm += static_cast<double>(to[d]) * static_cast<double>(to[d]);
      }
      if (options.normalize)
        for (std::int64_t d = 0; d < size_; ++d) to[d] = static_cast<float>(static_cast<double>(to[d]) / std::max(std::sqrt(norm), 1e-12));
    }
  }
  expect_finite("embed", vectors);
  return Tensor::from<float>(ctx, {static_cast<std::int64_t>(texts.size()), size_}, vectors);
}

}  // namespace transformer
