#include "transformer/models/transformer.h"

#include <cmath>

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
  return {.encoder = embedded(false),
          .decoder = embedded(true),
          .output_vocabulary = tie_output ? 0 : tgt_vocab_size,
          .output_bias = true,
          .ignored_label = pad_id,
          .label_smoothing = label_smoothing};
}

}  // namespace transformer
