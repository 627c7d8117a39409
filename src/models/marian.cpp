#include "transformer/models/marian.h"

#include <algorithm>
#include <cmath>

#include "transformer/io/config.h"

namespace transformer {
namespace {

template <class T>
void require_setting(const char* name, const T& given, const T& possible) {
  if (given == possible) return;
  const auto text = [&](const T& value) { return detail::write_value(value, name).dump(); };
  fail("marian", "{} is {}, but a Marian model has {}: change that, or keep it with the layout \"transformer\" (--arch transformer)", name,
       text(given), text(possible));
}

const char* activation_name(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::relu: return "relu";
    case FeedForwardKind::gelu: return "gelu";
    case FeedForwardKind::gelu_tanh: return "gelu_new";
    case FeedForwardKind::silu: return "swish";
    default: break;
  }
  fail("marian",
       "activation is {}, but a Marian model has relu, gelu, gelu_tanh or silu: change that, or keep it with the layout "
       "\"transformer\" (--arch transformer)",
       detail::write_value(kind, "activation").dump());
}

}  // namespace

nlohmann::json marian_config(const TransformerConfig& c, const MarianTokens& tokens) {
  require_setting("norm", c.norm, NormPlace::post);
  require_setting("norm_kind", c.norm_kind, NormKind::layer_norm);
  require_setting("norm_eps", c.norm_eps, 1e-5F);
  if (c.positions != PositionKind::sinusoidal_halves) require_setting("positions", c.positions, PositionKind::sinusoidal);
  if (c.num_kv_heads != 0) require_setting("num_kv_heads", c.num_kv_heads, c.num_heads);
  const StackConfig encoder = c.stack(false), decoder = c.stack(true);
  const bool shared = c.tgt_vocab_size == 0;
  const std::int64_t vocabulary = std::max(c.src_vocab_size, c.tgt_vocab_size);
  auto number = [](float value) { return detail::write_value(value, "number"); };
  return {{"model_type", "marian"},
          {"architectures", {"MarianMTModel"}},
          {"is_encoder_decoder", true},
          {"vocab_size", vocabulary},
          {"decoder_vocab_size", vocabulary},
          {"share_encoder_decoder_embeddings", shared},
          {"tie_word_embeddings", shared || c.tie_output},
          {"d_model", c.d_model},
          {"encoder_layers", encoder.layers},
          {"decoder_layers", decoder.layers},
          {"encoder_attention_heads", c.num_heads},
          {"decoder_attention_heads", c.num_heads},
          {"encoder_ffn_dim", c.d_ff},
          {"decoder_ffn_dim", c.d_ff},
          {"activation_function", activation_name(c.activation)},
          {"max_position_embeddings", c.max_len},
          {"scale_embedding", c.scale_embedding},
          {"dropout", number(c.dropout)},
          {"attention_dropout", number(c.attention_dropout)},
          {"activation_dropout", number(c.ffn_dropout)},
          {"encoder_layerdrop", 0.0},
          {"decoder_layerdrop", 0.0},
          {"init_std", number(1.0F / std::sqrt(static_cast<float>(c.d_model)))},
          {"bos_token_id", tokens.start},
          {"decoder_start_token_id", tokens.start},
          {"eos_token_id", tokens.end},
          {"forced_eos_token_id", tokens.end},
          {"pad_token_id", tokens.padding},
          {"dtype", "float32"},
          {"use_cache", true}};
}

}  // namespace transformer
