// BART: the original encoder-decoder with learned positions, a norm of the embeddings and GELU. Marian: the same with sinusoids
// (all sines, then all cosines) and without that norm. Both add to the logits a bias that is saved, but not trained.
#include <cmath>

#include "models/families.h"
#include "transformer/models/seq2seq.h"

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
}

EmbeddedStackConfig side(Settings& s, const std::string& name, bool marian) {
  const std::int64_t d = s.size("d_model", 1024);
  const float dropout = s.get("dropout", 0.1F);
  const bool decoder = name == "decoder";
  s.only(name + "_layerdrop", 0.0, "layers are not left out in training");
  return {.stack = {.d_model = d,
                    .heads = s.size(name + "_attention_heads", 16),
                    .d_ff = s.size(name + "_ffn_dim", 4096),
                    .layers = s.layers(name + "_layers", 12),
                    .feed_forward = feed_forward_of(s.activation("activation_function", "gelu"), false),
                    .causal = decoder,
                    .cross_attention = decoder,
                    .positions = marian ? PositionKind::sinusoidal_halves : PositionKind::learned,
                    .max_positions = s.size("max_position_embeddings", 1024),
                    .dropout = dropout,
                    .attention_dropout = s.get("attention_dropout", 0.0F),
                    .ffn_dropout = s.get("activation_dropout", 0.0F)},
          .padding = s.maybe<std::int64_t>("pad_token_id", marian ? 58100 : 1).value_or(-1),
          .embedding_scale = s.get("scale_embedding", false) ? std::sqrt(static_cast<float>(d)) : 1.0F,
          .embedding_deviation = s.get("init_std", 0.02F),
          .position_offset = marian ? 0 : 2,
          .embedding_norm = !marian,
          .dropout = dropout};
}

// What files written by the first versions say about variants that became families of their own.
void check_old_keys(Settings& s, bool marian) {
  const std::string why = "that is a model of another kind";
  s.only("normalize_before", false, why);
  s.only("add_final_layer_norm", false, why);
  s.only("do_blenderbot_90_layernorm", false, why);
  s.only("normalize_embedding", !marian, why);
  s.only("static_position_embeddings", marian, why);
  if (!marian) s.only("extra_pos_embeddings", 2, why);
  s.neutral({"extra_pos_embeddings"});
  s.only("is_encoder_decoder", true, "it is an encoder and a decoder");
  s.only("is_decoder", false, "it is an encoder and a decoder");
  s.neutral({"add_bias_logits", "force_bos_token_to_be_generated", "classifier_dropout", "classif_dropout",
             "max_encoder_position_embeddings", "max_decoder_position_embeddings"});
}

std::unique_ptr<Model> make(Settings& s, bool marian, const std::vector<std::string>& architectures) {
  s.alias("hidden_size", "d_model"), s.alias("num_attention_heads", "encoder_attention_heads");
  s.alias("num_hidden_layers", "encoder_layers");
  EncoderDecoderConfig config{.encoder = side(s, "encoder", marian), .decoder = side(s, "decoder", marian), .logits_bias = true};
  const std::int64_t vocabulary = s.size("vocab_size", marian ? 58101 : 50265);
  config.encoder.vocabulary = vocabulary;
  const bool tied = s.get("tie_word_embeddings", true), base = s.architecture(architectures) == architectures.back();
  const bool shared = !marian || s.get("share_encoder_decoder_embeddings", true);
  const std::int64_t output = shared ? vocabulary : s.maybe_size("decoder_vocab_size").value_or(vocabulary);
  if (!shared) config.decoder.vocabulary = output;
  if (marian) s.neutral({"decoder_vocab_size"});
  if (base) config.logits_bias = false;
  else if (!tied) config.output_vocabulary = output;
  check_old_keys(s, marian);

  const std::string prefix = base ? "" : "model.";
  Seq2SeqOptions options{.start = s.maybe<std::int64_t>("decoder_start_token_id", marian ? 58100 : 2),
                         .pad = s.maybe<std::int64_t>("pad_token_id", marian ? 58100 : 1),
                         .base = base,
                         .source_as_target = !marian};
  options.load.base = "model.";
  if (base) options.load.ignored.insert(options.load.ignored.end(), {"final_logits_bias", "lm_head.weight"});
  auto& names = options.names;
  if (shared) {
    names.push_back({.theirs = prefix + "shared", .ours = "encoder.embedding"});
    for (const char* second : {"encoder.embed_tokens", "decoder.embed_tokens"})
      names.push_back({.theirs = prefix + second, .ours = "encoder.embedding", .tied = true});
  } else {
    names.push_back({.theirs = prefix + "encoder.embed_tokens", .ours = "encoder.embedding"});
    names.push_back({.theirs = prefix + "decoder.embed_tokens", .ours = "decoder.embedding"});
  }
  add_names(names, prefix, "encoder", false);
  add_names(names, prefix, "decoder", true);
  names.push_back({.theirs = "final_logits_bias", .ours = "logits_bias", .shape = Shape{1, output}});
  return std::make_unique<Seq2SeqModel>(config, std::move(options));
}

std::unique_ptr<Model> make_bart(Settings& s) { return make(s, false, {"BartForConditionalGeneration", "BartModel"}); }
std::unique_ptr<Model> make_marian(Settings& s) { return make(s, true, {"MarianMTModel", "MarianModel"}); }

}  // namespace

const Family bart{.model_type = "bart", .make = make_bart, .lora_targets = {"q_proj", "v_proj"}};
const Family marian{.model_type = "marian", .make = make_marian, .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer::families
