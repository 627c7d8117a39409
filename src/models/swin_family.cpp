#include <fmt/format.h>

#include <cmath>

#include "models/families.h"
#include "models/image_family.h"
#include "transformer/models/swin.h"
#include "transformer/nn/feed_forward.h"
#include "transformer/ops/reduce.h"

namespace transformer {
namespace {

class SwinModel final : public Model {
 public:
  const Swin& network() const { return swin_; }

  SwinModel(const SwinConfig& config, ProblemType problem) : swin_(config), problem_(problem), prefix_(config.labels > 0 ? "swin." : "") {}

  Purpose purpose() const override { return swin_.classifier ? Purpose::image_labels : Purpose::image_vectors; }

  NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const override {
    check_inputs(inputs, swin_.classifier ? std::vector<std::string>{"pixel_values", "labels"} : std::vector<std::string>{"pixel_values"});
    SwinTrace trace;
    const bool traced = options.hidden_states || options.attentions;
    const Tensor x = swin_(ctx, input(inputs, "pixel_values", 4), traced ? &trace : nullptr);
    const Tensor pooled = mean(ctx, x, {1});
    NamedTensors out;
    if (swin_.classifier) {
      out["logits"] = (*swin_.classifier)(ctx, pooled);
      if (const auto labels = inputs.find("labels"); labels != inputs.end())
        out["loss"] = label_loss(ctx, out["logits"], labels->second, problem_);
    } else {
      out["last_hidden_state"] = x;
      out["pooler_output"] = pooled;
    }
    for (std::size_t i = 0; options.hidden_states && i < trace.hidden_states.size(); ++i)
      out[fmt::format("hidden_states.{}", i)] = trace.hidden_states[i];
    for (std::size_t i = 0; options.attentions && i < trace.attentions.size(); ++i)
      out[fmt::format("attentions.{}", i)] = trace.attentions[i].back();  // of the last block, as Hugging Face's
    return out;
  }

  std::vector<NamedParameter> parameters() override { return transformer::parameters(swin_); }
  std::vector<NamedLinear> linears() override { return transformer::linears(swin_); }

  std::vector<Binding> bindings() override {
    const SwinConfig& c = swin_.config;
    const std::string embeddings = prefix_ + "embeddings.";
    std::vector<NameRule> rules{
        {.theirs = embeddings + "patch_embeddings.projection.weight",
         .ours = "patches.projection.weight",
         .shape = Shape{c.d, c.channels, c.patches.height, c.patches.width}},
        {.theirs = embeddings + "patch_embeddings.projection.bias", .ours = "patches.projection.bias"},
        {.theirs = embeddings + "norm", .ours = "embedding_norm"},
        {.theirs = prefix_ + "layernorm", .ours = "norm"},
        {.theirs = "classifier", .ours = "classifier"},
    };
    if (swin_.positions.present())
      rules.push_back(
          {.theirs = embeddings + "position_embeddings", .ours = "positions", .shape = Shape{1, swin_.positions.shape[0], c.d}});
    for (std::size_t i = 0; i < swin_.stages.size(); ++i) {
      const std::string theirs = fmt::format("{}encoder.layers.{}.", prefix_, i), ours = fmt::format("stages.{}.", i);
      const std::string block = theirs + "blocks.{i}.";
      add_layer_rules(rules, {.file = block, .attention = "attention.self", .now = block, .ours = ours + "blocks.{i}."});
      const std::string table = "relative_position_bias_table";
      rules.push_back({.theirs = block + "attention.self." + table, .ours = ours + "blocks.{i}.bias_table"});
      rules.push_back(
          {.theirs = block + "attention.relative_position_bias." + table, .ours = ours + "blocks.{i}.bias_table", .tied = true});
      rules.push_back({.theirs = theirs + "downsample", .ours = ours + "merging"});
    }
    return bind_names(parameters(), rules);
  }

  // The index of the table of biases follows from the window.
  LoadRules load_rules() const override {
    return {.base = "swin.",
            .ignored = {"encoder.layers.{i}.blocks.{i}.attention.self.relative_position_index",
                        "encoder.layers.{i}.blocks.{i}.attention.relative_position_bias.relative_position_index", "embeddings.mask_token"}};
  }

 private:
  Swin swin_;
  ProblemType problem_;
  std::string prefix_;
};

std::unique_ptr<Model> make_swin(Settings& s) {
  const bool base = s.architecture(families::swin.classes) == families::swin.classes.back();
  s.alias("num_attention_heads", "num_heads");
  s.alias("num_hidden_layers", "num_layers");
  SwinConfig c;
  const Extent image = extent(s, "image_size", 224), patch = extent(s, "patch_size", 4);
  c.channels = s.size("num_channels", 3);
  check_patches(s, c.channels, image, patch);
  c.height = image.height;
  c.width = image.width;
  c.patches = {patch.height, patch.width};
  c.d = s.size("embed_dim", 96);
  c.depths = s.get("depths", c.depths);
  c.heads = s.get("num_heads", c.heads);
  const auto stages = static_cast<std::int64_t>(c.depths.size());
  if (stages < 1 || stages > 12) s.refuse("depths", "expected the number of blocks of each of 1 to 12 stages");
  for (std::int64_t depth : c.depths)
    if (depth < 1 || depth > 100) s.refuse("depths", "expected 1 to 100 blocks in every stage");
  if (c.heads.size() != c.depths.size()) s.refuse("num_heads", "expected one value for each of depths");
  if (c.d > 1 << 16) s.refuse("embed_dim", "expected at most 65536");
  for (std::size_t i = 0; i < c.heads.size(); ++i)
    if (c.heads[i] < 1 || (c.d << i) % c.heads[i] != 0)
      s.refuse("num_heads", "every stage's heads must divide its width, embed_dim times 2, 4 …");
  c.window = s.size("window_size", 7);
  if (c.window > 256) s.refuse("window_size", "expected at most 256");
  c.ffn_ratio = s.get("mlp_ratio", 4.0);
  if (!(c.ffn_ratio * static_cast<double>(c.d) >= 1.0 && c.ffn_ratio <= 1024.0))
    s.refuse("mlp_ratio", "expected a positive factor up to 1024");
  c.feed_forward = feed_forward_of(s.activation("hidden_act", "gelu"), false);
  c.qkv_bias = s.get("qkv_bias", true);
  c.norm_eps = s.get("layer_norm_eps", 1e-5F);
  c.dropout = s.get("hidden_dropout_prob", 0.0F);
  c.attention_dropout = s.get("attention_probs_dropout_prob", 0.0F);
  c.drop_path = s.get("drop_path_rate", 0.1F);
  if (!(c.drop_path >= 0.0F && c.drop_path < 1.0F)) s.refuse("drop_path_rate", "expected a probability in [0, 1)");
  c.added_positions = s.get("use_absolute_embeddings", false);
  if (!base) c.labels = s.labels();
  // Derived from the others, and written beside them.
  s.only("hidden_size", c.d << (stages - 1), "it follows from embed_dim and depths");
  s.only("num_layers", stages, "it follows from depths");
  s.neutral({"encoder_stride", "out_features", "out_indices", "stage_names", "path_norm"});
  return std::make_unique<SwinModel>(c, problem_type(s));
}

}  // namespace

const Swin* swin_of(const Model& model) {
  const auto* swin = dynamic_cast<const SwinModel*>(&model);
  return swin != nullptr ? &swin->network() : nullptr;
}

const Family families::swin{.model_type = "swin",
                            .make = make_swin,
                            .classes = {"SwinForImageClassification", "SwinModel"},
                            .dropout = {.all = {"hidden_dropout_prob"}, .attention = {"attention_probs_dropout_prob"}},
                            .lora_targets = {"q_proj", "v_proj"}};

}  // namespace transformer
