// LLaMA, Mistral and Qwen2: pre-norm with RMSNorm, rotary positions, gated FFN, keys and values shared by groups of heads. They
// differ in biases and windows.
#include "models/families.h"
#include "models/text_family.h"

namespace transformer::families {
namespace {

struct Defaults {
  std::int64_t vocabulary, d_ff, max_positions;
  std::optional<std::int64_t> kv_heads;  // none: as many as heads
};

// All that the three have in common but the head.
TextFamily read(Settings& s, const Family& family, const Defaults& defaults) {
  TextFamily f{.architecture = s.architecture(family.classes), .base = "model."};
  refuse_decoder(s);
  TextConfig& c = f.config;
  c.stack = {.d_model = s.size("hidden_size", 4096),
             .heads = s.size("num_attention_heads", 32),
             .d_ff = s.size("intermediate_size", defaults.d_ff),
             .layers = s.layers("num_hidden_layers", 32),
             .norm = NormKind::rms_norm,
             .norm_place = NormPlace::pre,
             .norm_eps = s.get("rms_norm_eps", 1e-6F),
             .final_norm = true,
             .feed_forward = feed_forward_of(s.activation("hidden_act", "silu"), true),
             .qkv_bias = false,
             .out_bias = false,
             .ffn_bias = false,
             .causal = true,
             .attention_dropout = s.maybe<float>("attention_dropout").value_or(0.0F)};
  c.stack.head_dim = s.maybe_size("head_dim").value_or(0);
  if (const auto kv = s.maybe<std::int64_t>("num_key_value_heads", defaults.kv_heads)) {
    if (*kv < 1) s.refuse("num_key_value_heads", "expected 1 or more");
    c.stack.kv_heads = *kv;
  }
  c.vocabulary = s.size("vocab_size", defaults.vocabulary);
  c.padding = s.maybe<std::int64_t>("pad_token_id").value_or(-1);
  c.max_positions = s.size("max_position_embeddings", defaults.max_positions);
  read_rope(s, c.stack, c.max_positions);
  f.body = {{"embed_tokens", "embedder.tokens"},
            {"layers.{i}.input_layernorm", "stack.layers.{i}.attention_norm"},
            {"layers.{i}.self_attn.q_proj", "stack.layers.{i}.attention.qkv", 0},
            {"layers.{i}.self_attn.k_proj", "stack.layers.{i}.attention.qkv", 1},
            {"layers.{i}.self_attn.v_proj", "stack.layers.{i}.attention.qkv", 2},
            {"layers.{i}.self_attn.o_proj", "stack.layers.{i}.attention.out"},
            {"layers.{i}.post_attention_layernorm", "stack.layers.{i}.feed_forward_norm"},
            {"layers.{i}.mlp.gate_proj", "stack.layers.{i}.feed_forward.in", 0},
            {"layers.{i}.mlp.up_proj", "stack.layers.{i}.feed_forward.in", 1},
            {"layers.{i}.mlp.down_proj", "stack.layers.{i}.feed_forward.out"},
            {"norm", "stack.final_norm"}};
  f.load.ignored = {"layers.{i}.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq"};  // computed
  f.initializer_range = s.get("initializer_range", 0.02F);
  read_decoder_head(s, f, false, "score");
  return f;
}

std::unique_ptr<Model> make_llama(Settings& s) {
  TextFamily f = read(s, llama, {.vocabulary = 32000, .d_ff = 11008, .max_positions = 2048, .kv_heads = {}});
  s.neutral({"pretraining_tp"});  // in how many slices the products are computed
  f.config.stack.qkv_bias = f.config.stack.out_bias = s.get("attention_bias", false);
  f.config.stack.ffn_bias = s.get("mlp_bias", false);
  return make_text(std::move(f));
}

std::unique_ptr<Model> make_mistral(Settings& s) {
  TextFamily f = read(s, mistral, {.vocabulary = 32000, .d_ff = 14336, .max_positions = 4096 * 32, .kv_heads = 8});
  const auto window = s.maybe<std::int64_t>("sliding_window", 4096);
  if (window && *window < 1) s.refuse("sliding_window", "expected 1 or more, or null");
  f.config.stack.window = window.value_or(0);
  return make_text(std::move(f));
}

std::unique_ptr<Model> make_qwen2(Settings& s) {
  TextFamily f = read(s, qwen2, {.vocabulary = 151936, .d_ff = 22016, .max_positions = 32768, .kv_heads = 32});
  s.only("use_mrope", false, "positions in several dimensions are not supported");
  StackConfig& c = f.config.stack;
  c.qkv_bias = true;
  // The layers from max_window_layers on have windows, unless layer_types says which.
  const std::int64_t size = s.maybe<std::int64_t>("sliding_window", 4096).value_or(0);  // 0: none
  const std::int64_t window = s.get("use_sliding_window", false) ? size : 0;
  const auto first = s.get<std::int64_t>("max_window_layers", 28);
  const auto types = s.maybe<std::vector<std::string>>("layer_types");
  if (window < 0) s.refuse("sliding_window", "expected 1 or more, or null");
  if (types && static_cast<std::int64_t>(types->size()) != c.layers) s.refuse("layer_types", "expected a type for each layer");
  for (std::int64_t i = 0; i < c.layers; ++i) {
    bool slides = window > 0 && i >= first;
    if (types) {
      const std::string& type = (*types)[static_cast<std::size_t>(i)];
      if (type != "full_attention" && type != "sliding_attention") s.refuse("layer_types", "expected full_attention or sliding_attention");
      slides = type == "sliding_attention";
      if (slides && window == 0)
        s.refuse("layer_types", "a layer has a window, but there is no sliding_window or use_sliding_window is false");
    }
    c.windows.push_back(slides ? window : 0);
  }
  return make_text(std::move(f));
}

}  // namespace

const Family llama{.model_type = "llama",
                   .make = make_llama,
                   .classes = {"LlamaForCausalLM", "LlamaModel", "LlamaForSequenceClassification", "LlamaForTokenClassification"},
                   .dropout = {.attention = {"attention_dropout"}},
                   .lora_targets = {"q_proj", "v_proj"}};
const Family mistral{.model_type = "mistral",
                     .make = make_mistral,
                     .classes = {"MistralForCausalLM", "MistralModel", "MistralForSequenceClassification", "MistralForTokenClassification"},
                     .dropout = {.attention = {"attention_dropout"}},
                     .lora_targets = {"q_proj", "v_proj"}};
const Family qwen2{.model_type = "qwen2",
                   .make = make_qwen2,
                   .classes = {"Qwen2ForCausalLM", "Qwen2Model", "Qwen2ForSequenceClassification", "Qwen2ForTokenClassification"},
                   .dropout = {.attention = {"attention_dropout"}},
                   .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer::families
