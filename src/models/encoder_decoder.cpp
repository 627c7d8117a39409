#include "transformer/models/encoder_decoder.h"

#include <limits>

#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/shape.h"

namespace transformer {

EmbeddedStack::EmbeddedStack(const EmbeddedStackConfig& c)
    : positions(c.stack.positions, c.stack.max_positions, c.stack.d_model, c.position_offset), dropout(c.dropout),
      final_dropout(c.final_dropout), stack(c.stack) {
  if (c.vocabulary < 0) fail("Transformer", "a vocabulary of {} tokens was asked for", c.vocabulary);
  if (c.vocabulary > 0) {
    embedding.emplace(c.vocabulary, c.stack.d_model, c.embedding_scale, c.embedding_deviation);
    embedding->padding = c.padding;
  }
  if (c.embedding_norm) norm.emplace(c.stack.norm, c.stack.d_model, c.stack.norm_eps, c.stack.norm_bias);
}

Tensor EmbeddedStack::prepare(Context& ctx, const Tensor& x, const Sequences& sequences, const KVCache* cache) const {
  const auto starts = cache != nullptr ? cache->lengths() : std::span<const std::int64_t>{};
  Tensor y = positions(ctx, x, sequences, starts);
  if (norm) y = (*norm)(ctx, y);
  return transformer::dropout(ctx, y, dropout);
}

Tensor EmbeddedStack::embed(Context& ctx, const Tensor& ids, const Sequences& sequences, const TokenEmbedding* table,
                            const KVCache* cache) const {
  if (table == nullptr && !embedding) fail("Transformer", "ids given, but this stack has no token embedding (src_vocab_size is 0)");
  return prepare(ctx, (table != nullptr ? *table : *embedding)(ctx, ids), sequences, cache);
}

Tensor EmbeddedStack::run(Context& ctx, const StackInput& input, StackTrace* trace) const {
  return transformer::dropout(ctx, stack(ctx, input, trace), final_dropout);
}

Tensor EmbeddedStack::operator()(Context& ctx, const Tensor& input, const Sequences& sequences, const Tensor& bias,
                                 StackTrace* trace) const {
  const Tensor x = embedding ? embed(ctx, input, sequences) : prepare(ctx, cast(ctx, input, ctx.precision()), sequences);
  return run(ctx, {.x = x, .sequences = sequences, .bias = bias}, trace);
}

std::int64_t EmbeddedStack::max_length() const {
  const PositionKind kind = stack.config.positions;
  const bool endless = kind == PositionKind::none || kind == PositionKind::relative || kind == PositionKind::alibi;
  return endless ? std::numeric_limits<std::int32_t>::max() : stack.config.max_positions;
}

EncoderDecoder::EncoderDecoder(const EncoderDecoderConfig& c) : settings(c), encoder(c.encoder), decoder(c.decoder) {
  if (!encoder.embedding) fail("Transformer", "src_vocab_size must be positive, got {}", c.encoder.vocabulary);
  if (c.output_vocabulary > 0) output.emplace(c.decoder.stack.d_model, c.output_vocabulary, c.output_bias);
  if (c.logits_bias) logits_bias = {.shape = {target_vocabulary()}, .trained = false};
}

Tensor EncoderDecoder::encode(Context& ctx, const PairBatch& batch, StackTrace* trace) const {
  return encoder(ctx, batch.source_ids, batch.source, batch.source_bias, trace);
}

Tensor EncoderDecoder::decode(Context& ctx, const PairBatch& batch, const Tensor& memory, StackTrace* trace) const {
  return decode(ctx,
                DecoderInput{.ids = batch.target_ids,
                             .sequences = batch.target,
                             .bias = batch.target_bias,
                             .memory = memory,
                             .memory_sequences = batch.source,
                             .memory_bias = batch.source_bias},
                trace);
}

Tensor EncoderDecoder::decode(Context& ctx, const DecoderInput& in, StackTrace* trace) const {
  return decoder.run(ctx,
                     {.x = decoder.embed(ctx, in.ids, in.sequences, &target_embedding(), in.cache),
                      .sequences = in.sequences,
                      .bias = in.bias,
                      .memory = in.memory,
                      .memory_sequences = in.memory_sequences,
                      .memory_readers = in.memory_readers,
                      .memory_bias = in.memory_bias,
                      .cache = in.cache},
                     trace);
}

Tensor EncoderDecoder::scaled(Context& ctx, const Tensor& hidden) const {
  return settings.output_scale == 1.0F ? hidden : scale(ctx, hidden, settings.output_scale);
}

Tensor EncoderDecoder::logits(Context& ctx, const Tensor& hidden) const {
  return linear(ctx, scaled(ctx, hidden), output_weight(), output_bias());
}

Tensor EncoderDecoder::operator()(Context& ctx, const PairBatch& batch, TransformerTrace* trace) const {
  const Tensor memory = encode(ctx, batch, trace != nullptr ? &trace->encoder : nullptr);
  return logits(ctx, decode(ctx, batch, memory, trace != nullptr ? &trace->decoder : nullptr));
}

Tensor EncoderDecoder::loss(Context& ctx, const PairBatch& batch, float label_smoothing) const {
  return loss(ctx, decode(ctx, batch, encode(ctx, batch)), batch.labels, label_smoothing);
}

Tensor EncoderDecoder::loss(Context& ctx, const Tensor& hidden, const Tensor& labels, float label_smoothing) const {
  return linear_cross_entropy(ctx, scaled(ctx, hidden), output_weight(), output_bias(), labels,
                              {.label_smoothing = label_smoothing, .ignore = settings.ignored_label});
}

}  // namespace transformer
