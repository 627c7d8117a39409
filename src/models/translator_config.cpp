#include "models/translator_config.h"

#include <cmath>

#include "transformer/io/config.h"

namespace transformer {
namespace {

const char* activation_name(FeedForwardKind kind) {
  switch (kind) {
    case FeedForwardKind::relu: return "relu";
    case FeedForwardKind::gelu: return "gelu";
    case FeedForwardKind::gelu_tanh: return "gelu_new";
    case FeedForwardKind::silu: return "swish";
    default: return nullptr;
  }
}

}  // namespace

std::string why_not(const TransformerConfig& c, const char* model, NormPlace norm) {
  auto differs = [&](const char* name, const auto& given, const auto& possible) {
    const auto text = [&](const auto& value) { return detail::write_value(value, name).dump(); };
    return given == possible ? std::string() : fmt::format("{} is {}, but {} has {}", name, text(given), model, text(possible));
  };
  if (std::string why = differs("norm", c.norm, norm); !why.empty()) return why;
  if (std::string why = differs("norm_kind", c.norm_kind, NormKind::layer_norm); !why.empty()) return why;
  if (std::string why = differs("norm_eps", c.norm_eps, 1e-5F); !why.empty()) return why;
  if (activation_name(c.activation) == nullptr) return differs("activation", c.activation, FeedForwardKind::relu);
  if (c.positions != PositionKind::sinusoidal_halves) {
    if (std::string why = differs("positions", c.positions, PositionKind::sinusoidal); !why.empty()) return why;
  }
  return c.num_kv_heads == 0 ? "" : differs("num_kv_heads", c.num_kv_heads, c.num_heads);
}

nlohmann::json translator_config(const TransformerConfig& c, const TranslatorTokens& tokens, const char* model_type,
                                 const char* architecture) {
  const StackConfig encoder = c.stack(false), decoder = c.stack(true);
  auto number = [](float value) { return detail::write_value(value, "number"); };
  nlohmann::json config{{"model_type", model_type},
                        {"architectures", {architecture}},
                        {"is_encoder_decoder", true},
                        {"vocab_size", c.src_vocab_size},
                        {"tie_word_embeddings", c.tgt_vocab_size == 0 || c.tie_output},
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
                        {"decoder_start_token_id", tokens.start},
                        {"eos_token_id", tokens.end},
                        {"forced_eos_token_id", tokens.end},
                        {"pad_token_id", tokens.padding},
                        {"dtype", "float32"},
                        {"use_cache", true}};
  if (tokens.start != tokens.padding) config["bos_token_id"] = tokens.start;
  return config;
}

}  // namespace transformer
