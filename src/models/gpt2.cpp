// GPT-2: pre-norm, learned positions, Q, K and V in one matrix; all matrices are stored transposed.
#include "models/families.h"
#include "models/text_family.h"

namespace transformer::families {
namespace {

std::unique_ptr<Model> make_gpt2(Settings& s) {
  s.alias("hidden_size", "n_embd");
  s.alias("max_position_embeddings", "n_positions");
  s.alias("num_attention_heads", "n_head");
  s.alias("num_hidden_layers", "n_layer");
  TextFamily f{.architecture = s.architecture(gpt2.classes), .base = "transformer."};
  refuse_decoder(s);
  // n_ctx is n_positions; the summary belongs to a head that is not here; reorder_and_upcast_attn is about float16.
  s.neutral({"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
             "reorder_and_upcast_attn"});

  TextConfig& c = f.config;
  const std::int64_t d = s.size("n_embd", 768);
  c.stack = {.d_model = d,
             .heads = s.size("n_head", 12),
             .d_ff = s.maybe_size("n_inner").value_or(4 * d),
             .layers = s.layers("n_layer", 12),
             .norm_place = NormPlace::pre,
             .norm_eps = s.get("layer_norm_epsilon", 1e-5F),
             .final_norm = true,
             .feed_forward = feed_forward_of(s.activation("activation_function", "gelu_new"), false),
             .attention_scale = s.get("scale_attn_weights", true) ? 0.0F : 1.0F,
             .causal = true,
             .scale_by_layer = s.get("scale_attn_by_inverse_layer_idx", false),
             .dropout = s.get("resid_pdrop", 0.1F),
             .attention_dropout = s.get("attn_pdrop", 0.1F)};
  c.vocabulary = s.size("vocab_size", 50257);
  c.positions = c.max_positions = s.size("n_positions", 1024);
  c.types_are_tokens = true;
  c.embedding_dropout = s.get("embd_pdrop", 0.1F);
  f.body = {{"wte", "embedder.tokens"},
            {"wpe", "embedder.positions"},
            {"h.{i}.ln_1", "stack.layers.{i}.attention_norm"},
            {.theirs = "h.{i}.attn.c_attn", .ours = "stack.layers.{i}.attention.qkv", .layout = Layout::transposed},
            {.theirs = "h.{i}.attn.c_proj", .ours = "stack.layers.{i}.attention.out", .layout = Layout::transposed},
            {"h.{i}.ln_2", "stack.layers.{i}.feed_forward_norm"},
            {.theirs = "h.{i}.mlp.c_fc", .ours = "stack.layers.{i}.feed_forward.in", .layout = Layout::transposed},
            {.theirs = "h.{i}.mlp.c_proj", .ours = "stack.layers.{i}.feed_forward.out", .layout = Layout::transposed},
            {"ln_f", "stack.final_norm"}};
  f.load.ignored = {"h.{i}.attn.bias", "h.{i}.attn.masked_bias"};  // causal masks
  f.initializer_range = s.get("initializer_range", 0.02F);
  f.scaled_residuals = true;
  read_decoder_head(s, f, true, "classifier");
  return make_text(std::move(f));
}

}  // namespace

const Family gpt2{.model_type = "gpt2",
                  .make = make_gpt2,
                  .classes = {"GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification", "GPT2ForTokenClassification"},
                  .dropout = {.all = {"resid_pdrop", "embd_pdrop"}, .attention = {"attn_pdrop"}},
                  .lora_targets = {"c_attn"}};

}  // namespace transformer::families
