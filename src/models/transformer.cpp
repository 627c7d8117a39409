#include "transformer/models/transformer.h"

#include <cmath>

#include "nn/shared/check_sizes.h"

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

EmbeddedStackConfig TransformerConfig::embedded(bool decoder) const {
  const float width = std::sqrt(static_cast<float>(d_model));
  return {.stack = stack(decoder),
          .vocabulary = decoder ? tgt_vocab_size : src_vocab_size,
          .embedding_scale = scale_embedding ? width : 1.0F,
          .embedding_deviation = 1.0F / width,
          .dropout = dropout};
}

EncoderDecoderConfig TransformerConfig::encoder_decoder() const {
  constexpr const char* where = "transformer";
  check_width(where, d_model, num_heads, positions == PositionKind::rotary);
  if (positions == PositionKind::sinusoidal && d_model % 2 != 0)
    wrong_setting(where, "d_model", "is {}: sinusoidal positions need an even one", d_model);
  check_at_least(where, "num_kv_heads", num_kv_heads, 0);
  if (num_kv_heads > 0 && num_heads % num_kv_heads != 0)
    wrong_setting(where, "num_kv_heads", "is {}: expected a divisor of num_heads, {}", num_kv_heads, num_heads);
  check_at_least(where, "num_layers", num_layers, 0);
  check_at_least(where, "d_ff", d_ff, 1);
  check_at_least(where, "max_len", max_len, 1);
  for (const auto& [key, value] : {std::pair{"dropout", dropout}, {"attention_dropout", attention_dropout}, {"ffn_dropout", ffn_dropout}})
    if (!(value >= 0.0F && value < 1.0F)) wrong_setting(where, key, "is {}: expected a value in [0, 1)", value);
  return {.encoder = embedded(false),
          .decoder = embedded(true),
          .output_vocabulary = tie_output ? 0 : tgt_vocab_size,
          .output_bias = true,
          .ignored_label = pad_id,
          .label_smoothing = label_smoothing};
}

}  // namespace transformer
