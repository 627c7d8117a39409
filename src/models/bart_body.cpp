#include "models/bart_body.h"

#include <cmath>

#include "transformer/models/encoder_decoder_model.h"

namespace transformer::families {
namespace {

void add_names(std::vector<NameRule>& names, const std::string& prefix, const std::string& side, bool decoder) {
  const std::string theirs = prefix + side + ".layers.{i}.", ours = side + ".stack.layers.{i}.";
  auto add = [&](const std::string& from, const std::string& to, int part = -1) {
    names.push_back({.theirs = theirs + from, .ours = ours + to, .part = part});
  };
  add("self_attn.q_proj", "attention.qkv", 0);
  add("self_attn.k_proj", "attention.qkv", 1);
  add("self_attn.v_proj", "attention.qkv", 2);
  add("self_attn.out_proj", "attention.out");
  add("self_attn_layer_norm", "attention_norm");
  if (decoder) {
    add("encoder_attn.q_proj", "cross_attention.q");
    add("encoder_attn.k_proj", "cross_attention.kv", 0);
    add("encoder_attn.v_proj", "cross_attention.kv", 1);
    add("encoder_attn.out_proj", "cross_attention.out");
    add("encoder_attn_layer_norm", "cross_attention_norm");
  }
  add("fc1", "feed_forward.in");
  add("fc2", "feed_forward.out");
  add("final_layer_norm", "feed_forward_norm");
  names.push_back({.theirs = prefix + side + ".embed_positions.weight", .ours = side + ".positions.table"});
  names.push_back({.theirs = prefix + side + ".layernorm_embedding", .ours = side + ".norm"});
  names.push_back({.theirs = prefix + side + ".layer_norm", .ours = side + ".stack.final_norm"});
}

EmbeddedStackConfig side(Settings& s, const BartBody& body, const std::string& name, std::optional<std::int64_t> pad) {
  const std::int64_t d = s.size("d_model", 1024);
  const float dropout = s.get("dropout", 0.1F);
  const bool decoder = name == "decoder";
  if (body.drops_layers) s.neutral({name + "_layerdrop"});
  else s.only(name + "_layerdrop", 0.0, "layers are not left out in training");
  return {.stack = {.d_model = d,
                    .heads = s.size(name + "_attention_heads", 16),
                    .d_ff = s.size(name + "_ffn_dim", 4096),
                    .layers = s.layers(name + "_layers", 12),
                    .norm_place = body.pre_norm ? NormPlace::pre : NormPlace::post,
                    .final_norm = body.pre_norm,
                    .feed_forward = feed_forward_of(s.activation("activation_function", body.activation), false),
                    .causal = decoder,
                    .cross_attention = decoder,
                    .positions = body.positions == BartPositions::learned ? PositionKind::learned : PositionKind::sinusoidal_halves,
                    .max_positions = s.size("max_position_embeddings", 1024),
                    .dropout = dropout,
                    .attention_dropout = s.get("attention_dropout", body.attention_dropout),
                    .ffn_dropout = s.get("activation_dropout", 0.0F)},
          .padding = pad.value_or(-1),
          .embedding_scale = s.get("scale_embedding", body.scale_embedding) ? std::sqrt(static_cast<float>(d)) : 1.0F,
          .embedding_deviation = s.get("init_std", 0.02F),
          .position_offset = body.positions == BartPositions::learned ? 2 : 0,
          .positions_skip_padding = body.positions == BartPositions::sinusoids_of_tokens,
          .embedding_norm = body.embedding_norm,
          .dropout = dropout};
}

// What files written by the first versions say about variants that became families of their own.
void check_old_keys(Settings& s, const BartBody& body) {
  const std::string why = "that is a model of another kind";
  const bool learned = body.positions == BartPositions::learned;
  s.only("normalize_before", body.pre_norm, why);
  s.only("add_final_layer_norm", body.pre_norm, why);
  s.only("do_blenderbot_90_layernorm", false, why);
  s.only("normalize_embedding", body.embedding_norm, why);
  s.only("static_position_embeddings", !learned, why);
  if (learned) s.only("extra_pos_embeddings", 2, why);
  s.neutral({"extra_pos_embeddings"});
  s.only("is_encoder_decoder", true, "it is an encoder and a decoder");
  s.only("is_decoder", false, "it is an encoder and a decoder");
  s.neutral({"add_bias_logits", "force_bos_token_to_be_generated", "classifier_dropout", "classif_dropout",
             "max_encoder_position_embeddings", "max_decoder_position_embeddings"});
}

}  // namespace

std::unique_ptr<Model> make_bart_body(Settings& s, const Family& family, const BartBody& body) {
  s.alias("hidden_size", "d_model"), s.alias("num_attention_heads", "encoder_attention_heads");
  s.alias("num_hidden_layers", "encoder_layers");
  const auto pad = s.maybe<std::int64_t>("pad_token_id", body.pad), start = s.maybe<std::int64_t>("decoder_start_token_id", body.start);
  EncoderDecoderConfig config{.encoder = side(s, body, "encoder", pad), .decoder = side(s, body, "decoder", pad)};
  const std::int64_t vocabulary = s.size("vocab_size", body.vocabulary);
  config.encoder.vocabulary = vocabulary;
  const bool tied = s.get("tie_word_embeddings", true), base = s.architecture(family.classes) == family.classes.back();
  const bool shared = !body.two_tables || s.get("share_encoder_decoder_embeddings", true);
  const std::int64_t output = shared ? vocabulary : s.maybe_size("decoder_vocab_size").value_or(vocabulary);
  const bool one_table = shared && tied;  // what is not tied is not shared: three tables of their own
  if (!one_table) config.decoder.vocabulary = output;
  if (body.two_tables) s.neutral({"decoder_vocab_size"});
  config.logits_bias = body.logits_bias && !base;
  config.zero_padding = body.starts_with_padding && pad && start == pad;
  if (!base && !tied) config.output_vocabulary = output;
  check_old_keys(s, body);

  const std::string prefix = base ? "" : "model.";
  EncoderDecoderOptions options{.start = start,
                                .pad = pad,
                                .base = base,
                                .source_as_target = body.source_as_target,
                                .wraps_labels = body.wraps_labels,
                                .saves_positions = body.saves_positions};
  options.load.base = "model.";
  // Tables that are computed, as files of older versions have them.
  if (body.positions == BartPositions::sinusoids_of_tokens)
    options.load.ignored = {prefix + "encoder.embed_positions.weights", prefix + "decoder.embed_positions.weights"};
  if (base) options.load.ignored.insert(options.load.ignored.end(), {"final_logits_bias", "lm_head.weight"});
  auto& names = options.names;
  if (one_table) {
    names.push_back({.theirs = prefix + "shared", .ours = "encoder.embedding"});
    for (const char* second : {"encoder.embed_tokens", "decoder.embed_tokens"})
      names.push_back({.theirs = prefix + second, .ours = "encoder.embedding", .tied = true});
  } else {
    names.push_back({.theirs = prefix + "encoder.embed_tokens", .ours = "encoder.embedding"});
    names.push_back({.theirs = prefix + "decoder.embed_tokens", .ours = "decoder.embedding"});
    if (shared) options.load.ignored.push_back(options.shared_table = prefix + "shared");
  }
  add_names(names, prefix, "encoder", false);
  add_names(names, prefix, "decoder", true);
  names.push_back({.theirs = "final_logits_bias", .ours = "logits_bias", .shape = Shape{1, output}});
  return std::make_unique<EncoderDecoderModel>(config, std::move(options));
}

}  // namespace transformer::families
