// Falcon: attention and FFN side by side (or, the oldest ones, one after the other), keys and values shared by all heads or by
// groups of them, rotary positions or ALiBi; Q, K and V in one matrix, group by group.
#include "models/families.h"
#include "models/text_family.h"

namespace transformer::families {
namespace {

std::unique_ptr<Model> make_falcon(Settings& s) {
  s.alias("n_embed", "hidden_size");
  TextFamily f{.architecture = s.architecture(falcon.classes), .base = "transformer."};
  refuse_decoder(s);
  s.only("apply_residual_connection_post_layernorm", false, "Hugging Face's Falcon does not have it either");
  const bool grouped = s.get("new_decoder_architecture", false), one_kv = s.get("multi_query", true),
             parallel = s.get("parallel_attn", true), bias = s.get("bias", false), alibi = s.get("alibi", false);
  const auto norms = s.maybe<std::int64_t>("num_ln_in_parallel_attn").value_or(grouped ? 2 : 1);
  if (grouped && !parallel) s.refuse("parallel_attn", "with new_decoder_architecture it must be true");
  if (norms != 1 && norms != 2) s.refuse("num_ln_in_parallel_attn", "expected 1 or 2");
  if (norms == 2 && !grouped) s.refuse("num_ln_in_parallel_attn", "2 is possible with new_decoder_architecture only");

  TextConfig& c = f.config;
  const std::int64_t d = s.size("hidden_size", 4544), heads = s.size("num_attention_heads", 71);
  const std::int64_t kv_heads = s.maybe_size("num_kv_heads").value_or(heads);
  if (!grouped && !one_kv && kv_heads != heads) s.refuse("num_kv_heads", "without multi_query it must be num_attention_heads");
  const auto dropout = s.maybe<float>("attention_dropout").value_or(0.0F);
  c.stack = {.d_model = d,
             .heads = heads,
             .kv_heads = grouped || !one_kv ? kv_heads : 1,
             .d_ff = s.maybe_size("ffn_hidden_size").value_or(4 * d),
             .layers = s.layers("num_hidden_layers", 32),
             .norm_place = NormPlace::pre,
             .norm_eps = s.get("layer_norm_epsilon", 1e-5F),
             .final_norm = true,
             .feed_forward = feed_forward_of(s.activation("activation", "gelu"), false),
             .order = parallel ? BlockOrder::parallel : BlockOrder::sequential,
             .separate_norms = norms == 2,
             .qkv_bias = bias,
             .out_bias = bias,
             .ffn_bias = bias,
             .causal = true,
             .dropout = s.maybe<float>("hidden_dropout").value_or(0.0F),
             .attention_output_dropout = dropout,           // of the oldest ones
             .attention_dropout = alibi ? dropout : 0.0F};  // with rotary positions there is none
  c.vocabulary = s.size("vocab_size", 65024);
  c.max_positions = s.size("max_position_embeddings", 2048);
  c.falcon_alibi = alibi;
  if (alibi) s.neutral({"rope_parameters", "rope_theta", "rope_scaling"});
  else read_rope(s, c.stack, c.max_positions);

  f.body = {{"word_embeddings", "embedder.tokens"},
            {.theirs = "h.{i}.self_attention.query_key_value",
             .ours = "stack.layers.{i}.attention.qkv",
             .layout = Layout::grouped,
             .groups = c.stack.kv_heads},
            {"h.{i}.self_attention.dense", "stack.layers.{i}.attention.out"},
            {norms == 2 ? "h.{i}.ln_attn" : "h.{i}.input_layernorm", "stack.layers.{i}.attention_norm"},
            {"h.{i}.mlp.dense_h_to_4h", "stack.layers.{i}.feed_forward.in"},
            {"h.{i}.mlp.dense_4h_to_h", "stack.layers.{i}.feed_forward.out"},
            {"ln_f", "stack.final_norm"}};
  if (!parallel || norms == 2)
    f.body.push_back({norms == 2 ? "h.{i}.ln_mlp" : "h.{i}.post_attention_layernorm", "stack.layers.{i}.feed_forward_norm"});
  f.load.ignored = {"rotary_emb.inv_freq", "h.{i}.self_attention.rotary_emb.inv_freq", "h.{i}.self_attention.maybe_rotary.inv_freq"};
  read_decoder_head(s, f, true, "classifier");
  return make_text(std::move(f));
}

}  // namespace

const Family falcon{.model_type = "falcon",
                    .make = make_falcon,
                    .classes = {"FalconForCausalLM", "FalconModel", "FalconForSequenceClassification", "FalconForTokenClassification"},
                    .dropout = {.all = {"hidden_dropout"}, .attention = {"attention_dropout"}},
                    .lora_targets = {"query_key_value"}};

}  // namespace transformer::families
