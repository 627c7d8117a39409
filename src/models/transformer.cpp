#include "transformer/models/transformer.h"

#include <cmath>

#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/shape.h"

namespace transformer {

StackConfig TransformerConfig::stack(bool decoder) const {
  return {.d_model = d_model,
          .heads = num_heads,
          .kv_heads = num_kv_heads,
          .d_ff = d_ff,
          .layers = decoder && num_decoder_layers >= 0 ? num_decoder_layers : num_layers,
          .norm = norm_kind,
          .norm_place = norm,
          .norm_eps = norm_eps,
          .final_norm = norm == NormPlace::pre,
          .feed_forward = activation,
          .causal = decoder,
          .cross_attention = decoder,
          .positions = positions,
          .max_positions = max_len,
          .dropout = dropout,
          .attention_dropout = attention_dropout,
          .ffn_dropout = ffn_dropout};
}

EmbeddedStack::EmbeddedStack(const TransformerConfig& c, bool decoder, std::int64_t vocabulary)
    : positions(c.positions, c.max_len, c.d_model), dropout(c.dropout), stack(c.stack(decoder)) {
  if (vocabulary < 0) fail("Transformer", "a vocabulary of {} tokens was asked for", vocabulary);
  const float width = std::sqrt(static_cast<float>(c.d_model));
  if (vocabulary > 0) embedding.emplace(vocabulary, c.d_model, c.scale_embedding ? width : 1.0F, 1.0F / width);
}

Tensor EmbeddedStack::prepare(Context& ctx, const Tensor& x, const Sequences& sequences, const KVCache* cache) const {
  const auto starts = cache != nullptr ? cache->lengths() : std::span<const std::int64_t>{};
  return transformer::dropout(ctx, positions(ctx, x, sequences, starts), dropout);
}

Tensor EmbeddedStack::embed(Context& ctx, const Tensor& ids, const Sequences& sequences, const TokenEmbedding* table,
                            const KVCache* cache) const {
  if (table == nullptr && !embedding) fail("Transformer", "ids given, but this stack has no token embedding (src_vocab_size is 0)");
  return prepare(ctx, (table != nullptr ? *table : *embedding)(ctx, ids), sequences, cache);
}

Tensor Encoder::operator()(Context& ctx, const Tensor& input, const Sequences& sequences, const Tensor& bias, StackTrace* trace) const {
  const Tensor x = embedding ? embed(ctx, input, sequences) : prepare(ctx, cast(ctx, input, ctx.precision()), sequences);
  return stack(ctx, {.x = x, .sequences = sequences, .bias = bias}, trace);
}

Transformer::Transformer(const TransformerConfig& c) : config(c), encoder(c), decoder(c, true, c.tgt_vocab_size) {
  if (!encoder.embedding) fail("Transformer", "src_vocab_size must be positive, got {}", c.src_vocab_size);
  if (decoder.embedding && !c.tie_output) output.emplace(c.d_model, c.tgt_vocab_size);
}

const TokenEmbedding& Transformer::target_embedding() const { return decoder.embedding ? *decoder.embedding : *encoder.embedding; }

Tensor Transformer::encode(Context& ctx, const PairBatch& batch, StackTrace* trace) const {
  return encoder(ctx, batch.source_ids, batch.source, batch.source_bias, trace);
}

Tensor Transformer::decode(Context& ctx, const PairBatch& batch, const Tensor& memory, StackTrace* trace) const {
  return decode(ctx,
                DecoderInput{.ids = batch.target_ids,
                             .sequences = batch.target,
                             .bias = batch.target_bias,
                             .memory = memory,
                             .memory_sequences = batch.source,
                             .memory_bias = batch.source_bias},
                trace);
}

Tensor Transformer::decode(Context& ctx, const DecoderInput& in, StackTrace* trace) const {
  return decoder.stack(ctx,
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

Tensor Transformer::logits(Context& ctx, const Tensor& hidden) const {
  return output ? (*output)(ctx, hidden) : linear(ctx, hidden, target_embedding().weight);
}

Tensor Transformer::operator()(Context& ctx, const PairBatch& batch, TransformerTrace* trace) const {
  const Tensor memory = encode(ctx, batch, trace != nullptr ? &trace->encoder : nullptr);
  return logits(ctx, decode(ctx, batch, memory, trace != nullptr ? &trace->decoder : nullptr));
}

Tensor Transformer::loss(Context& ctx, const PairBatch& batch, float label_smoothing) const {
  const Tensor hidden = decode(ctx, batch, encode(ctx, batch));
  return linear_cross_entropy(ctx, hidden, output ? output->weight : target_embedding().weight, output ? output->bias.tensor : Tensor(),
                              batch.labels, {.label_smoothing = label_smoothing, .ignore = config.pad_id});
}

}  // namespace transformer
