#include "transformer/models/encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// In float32, as the reference computes it: at large positions the rounding of the angle shows.
Tensor token_position_table(Context& ctx, std::int64_t rows, std::int64_t d, std::int64_t padding) {
  std::vector<float> table(static_cast<std::size_t>(rows * d));  // an odd last column stays zero
  const std::int64_t half = d / 2;
  const auto step = static_cast<float>(-std::log(10000.0) / static_cast<double>(std::max<std::int64_t>(half - 1, 1)));
  for (std::int64_t i = 0; i < half; ++i) {
    const float frequency = std::exp(static_cast<float>(i) * step);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (row == padding) continue;
      const float angle = static_cast<float>(row) * frequency;
      table[static_cast<std::size_t>(row * d + i)] = std::sin(angle);
      table[static_cast<std::size_t>(row * d + half + i)] = std::cos(angle);
    }
  }
  return Tensor::from<float>(ctx, {rows, d}, table);
}

}  // namespace

Tensor TokenPositions::operator()(Context& ctx, const Tensor& x, const Tensor& ids, const Sequences& sequences,
                                  std::span<const std::int64_t> starts) const {
  const std::vector<std::int64_t> tokens = visit_index("positions", ids.dtype(), [&]<class T>() {
    const std::vector<T> values = ids.to_vector<T>();
    return std::vector<std::int64_t>(values.begin(), values.end());
  });
  std::vector<std::int32_t> rows;
  for (std::int64_t s = 0; s < sequences.count(); ++s) {
    std::int64_t seen = starts.empty() ? 0 : starts[static_cast<std::size_t>(s)];
    for (std::int64_t i = 0; i < sequences.length(s); ++i) {
      const bool padded = tokens[static_cast<std::size_t>(sequences.begin(s) + i)] == padding;
      rows.push_back(static_cast<std::int32_t>(padded ? padding : padding + ++seen));
    }
    if (seen > positions) fail("positions", "a sequence of {} tokens is longer than the model's {} positions", seen, positions);
  }
  const Tensor table = computed.get([&] { return token_position_table(ctx, padding + 1 + positions, d, padding); });
  return add(ctx, x, transformer::embedding(ctx, Tensor::from<std::int32_t>(ctx, {sequences.total()}, rows), table));
}

EmbeddedStack::EmbeddedStack(const EmbeddedStackConfig& c)
    : positions(c.positions_skip_padding ? PositionKind::none : c.stack.positions, c.stack.max_positions, c.stack.d_model,
                c.position_offset),
      dropout(c.dropout), final_dropout(c.final_dropout), stack(c.stack) {
  if (c.positions_skip_padding) token_positions = {.positions = c.stack.max_positions, .d = c.stack.d_model, .padding = c.padding};
  if (c.vocabulary < 0) fail("Transformer", "a vocabulary of {} tokens was asked for", c.vocabulary);
  if (c.vocabulary > 0) {
    embedding.emplace(c.vocabulary, c.stack.d_model, c.embedding_scale, c.embedding_deviation);
    embedding->padding = c.padding;
  }
  if (c.embedding_norm) norm.emplace(c.stack.norm, c.stack.d_model, c.stack.norm_eps, c.stack.norm_bias);
}

Tensor EmbeddedStack::prepare(Context& ctx, const Tensor& x, const Sequences& sequences, const KVCache* cache) const {
  const auto starts = cache != nullptr ? cache->lengths() : std::span<const std::int64_t>{};
  Tensor y = positions(ctx, x, sequences, starts, cache != nullptr && cache->repeats() ? cache->positions() : Tensor());
  if (norm) y = (*norm)(ctx, y);
  return transformer::dropout(ctx, y, dropout);
}

Tensor EmbeddedStack::embed(Context& ctx, const Tensor& ids, const Sequences& sequences, const TokenEmbedding* table,
                            const KVCache* cache) const {
  if (table == nullptr && !embedding) fail("Transformer", "ids given, but this stack has no token embedding (src_vocab_size is 0)");
  Tensor x = (table != nullptr ? *table : *embedding)(ctx, ids);
  if (token_positions)
    x = (*token_positions)(ctx, x, ids, sequences, cache != nullptr ? cache->lengths() : std::span<const std::int64_t>{});
  return prepare(ctx, x, sequences, cache);
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
  const Tensor hidden = decode(ctx, batch, encode(ctx, batch));
  return linear_cross_entropy(ctx, scaled(ctx, hidden), output_weight(), output_bias(), batch.labels,
                              {.label_smoothing = label_smoothing,
                               .ignore = settings.ignored_label,
                               .fixed_row = settings.zero_padding && !output ? settings.decoder.padding : -1});
}

Tensor EncoderDecoder::loss(Context& ctx, const Tensor& hidden, const Tensor& labels, float label_smoothing) const {
  return linear_cross_entropy(ctx, scaled(ctx, hidden), output_weight(), output_bias(), labels,
                              {.label_smoothing = label_smoothing, .ignore = settings.ignored_label});
}

}  // namespace transformer
