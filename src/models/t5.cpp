// T5: pre-norm with RMSNorm, no biases, scores that are not scaled, and positions as a bias by distance that all layers of a
// stack share (the checkpoint keeps it in the first). Version 1.1 has a gated FFN and does not scale what it projects.
#include <cmath>

#include "models/families.h"
#include "transformer/models/encoder_decoder_model.h"

namespace transformer::families {
namespace {

void add_layer(std::vector<NameRule>& names, const std::string& side, bool decoder, bool gated) {
  const std::string theirs = side + ".block.{i}.layer.", ours = side + ".stack.layers.{i}.";
  auto projection = [&](const std::string& from, const std::string& to, int part = -1) {
    names.push_back({.theirs = theirs + from, .ours = ours + to, .part = part});
  };
  projection("0.SelfAttention.q", "attention.qkv", 0);
  projection("0.SelfAttention.k", "attention.qkv", 1);
  projection("0.SelfAttention.v", "attention.qkv", 2);
  projection("0.SelfAttention.o", "attention.out");
  projection("0.layer_norm", "attention_norm");
  if (decoder) {
    projection("1.EncDecAttention.q", "cross_attention.q");
    projection("1.EncDecAttention.k", "cross_attention.kv", 0);
    projection("1.EncDecAttention.v", "cross_attention.kv", 1);
    projection("1.EncDecAttention.o", "cross_attention.out");
    projection("1.layer_norm", "cross_attention_norm");
  }
  const std::string last = decoder ? "2." : "1.";
  if (gated) projection(last + "DenseReluDense.wi_0", "feed_forward.in", 0), projection(last + "DenseReluDense.wi_1", "feed_forward.in", 1);
  else projection(last + "DenseReluDense.wi", "feed_forward.in");
  projection(last + "DenseReluDense.wo", "feed_forward.out");
  projection(last + "layer_norm", "feed_forward_norm");
  names.push_back(
      {.theirs = side + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight", .ours = side + ".stack.positions.relative"});
  names.push_back({.theirs = side + ".final_layer_norm", .ours = side + ".stack.final_norm"});
  names.push_back({.theirs = side + ".embed_tokens", .ours = "encoder.embedding", .tied = true});
}

// feed_forward_proj is "relu" or "gated-gelu": gelu is the exact one, but gated-gelu has always been the tanh approximation.
FeedForwardKind feed_forward(Settings& s) {
  const std::string name = s.get("feed_forward_proj", "relu");
  const bool gated = name.starts_with("gated-");
  std::string activation = gated ? name.substr(6) : name;
  if (name == "gated-gelu") activation = "gelu_new";
  s.only("is_gated_act", gated, "feed_forward_proj says so");
  s.only("dense_act_fn", activation, "feed_forward_proj says so");
  return feed_forward_of(s.activation_named("feed_forward_proj", activation), gated);
}

std::unique_ptr<Model> make_t5(Settings& s) {
  s.alias("hidden_size", "d_model"), s.alias("num_attention_heads", "num_heads"), s.alias("num_hidden_layers", "num_layers");
  s.alias("head_dim", "d_kv"), s.alias("layer_norm_eps", "layer_norm_epsilon");
  const float dropout = s.get("dropout_rate", 0.1F);
  StackConfig stack{.d_model = s.size("d_model", 512),
                    .heads = s.size("num_heads", 8),
                    .head_dim = s.size("d_kv", 64),
                    .d_ff = s.size("d_ff", 2048),
                    .layers = s.layers("num_layers", 6),
                    .norm = NormKind::rms_norm,
                    .norm_place = NormPlace::pre,
                    .norm_eps = s.get("layer_norm_epsilon", 1e-6F),
                    .final_norm = true,
                    .feed_forward = feed_forward(s),
                    .qkv_bias = false,
                    .out_bias = false,
                    .ffn_bias = false,
                    .attention_scale = 1.0F,
                    .positions = PositionKind::relative,
                    .relative_buckets = s.size("relative_attention_num_buckets", 32),
                    .relative_max_distance = s.size("relative_attention_max_distance", 128),
                    .dropout = dropout,
                    .attention_dropout = dropout,
                    .ffn_dropout = dropout};
  // Old files say of version 1.1 that it is not tied and mean that it does not scale; whether it is tied, their tensors tell.
  const bool tied = s.get("tie_word_embeddings", true), scaled = s.get("scale_decoder_outputs", tied);
  const std::int64_t vocabulary = s.size("vocab_size", 32128);
  const bool base = s.architecture(t5.classes) == t5.classes.back();
  EncoderDecoderConfig config{
      .encoder = {.stack = stack, .vocabulary = vocabulary, .embedding_deviation = 1.0F, .dropout = dropout, .final_dropout = dropout},
      .decoder = {.stack = stack, .dropout = dropout, .final_dropout = dropout},
      .output_vocabulary = tied || base ? 0 : vocabulary,
      .output_scale = scaled ? 1.0F / std::sqrt(static_cast<float>(stack.d_model)) : 1.0F};
  config.decoder.stack.causal = config.decoder.stack.cross_attention = true;
  config.decoder.stack.layers = s.maybe<std::int64_t>("num_decoder_layers").has_value() ? s.layers("num_decoder_layers", 6) : stack.layers;
  s.only("is_encoder_decoder", true, "T5 is an encoder and a decoder");
  s.only("is_decoder", false, "T5 is an encoder and a decoder");
  s.only("is_encoder", false, "T5 is an encoder and a decoder");
  s.neutral({"n_positions", "initializer_factor", "classifier_dropout"});

  EncoderDecoderOptions options{.start = s.maybe<std::int64_t>("decoder_start_token_id", 0),
                                .pad = s.maybe<std::int64_t>("pad_token_id", 0),
                                .base = base,
                                .output_as_in_file = !scaled && !base};
  options.load.ignored = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};  // of the oldest files
  if (base) options.load.ignored.push_back("lm_head.weight");
  options.names.push_back({.theirs = "shared", .ours = "encoder.embedding"});
  const bool gated = is_gated(stack.feed_forward);
  add_layer(options.names, "encoder", false, gated);
  add_layer(options.names, "decoder", true, gated);
  return std::make_unique<EncoderDecoderModel>(config, std::move(options));
}

}  // namespace

const Family t5{.model_type = "t5",
                .make = make_t5,
                .classes = {"T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"},
                .dropout = {.all = {"dropout_rate"}},
                .lora_targets = {"q", "v"}};

}  // namespace transformer::families
