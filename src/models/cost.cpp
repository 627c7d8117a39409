#include "transformer/models/cost.h"

#include <algorithm>
#include <string_view>

#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/text.h"

namespace transformer {
namespace {

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }
bool in_layers(const std::string& name) { return has(name, ".layers.") || has(name, ".blocks."); }

// "encoder.stack.layers.3.feed_forward.in.weight" → "encoder feed-forward"
std::string part_of(const std::string& name) {
  const std::string side = name.starts_with("encoder.") ? "encoder " : name.starts_with("decoder.") ? "decoder " : "";
  if (has(name, "merging.")) return "merging of patches";
  if (has(name, "cross_attention.")) return side + "cross-attention";
  if (has(name, ".attention.")) return side + (side.empty() ? "attention" : "self-attention");
  if (has(name, "feed_forward.")) return side + "feed-forward";
  if (has(name, "norm.")) return side + "norms";
  if (has(name, "positions") || has(name, "relative") || has(name, "bias_table")) return side + "positions";
  if (has(name, "embed") || has(name, "patch")) return side + "embedding";
  return side.empty() && name.starts_with("output.") ? "output projection" : side + "head";
}

// output: the matrix that makes the logits, where it is known.
ModelCost count(const std::vector<NamedParameter>& parameters, const std::string& output) {
  ModelCost c;
  std::int64_t source = 0, target = 0;  // weights that every source or target token is multiplied with
  for (const auto& [name, p] : parameters) {
    if (!p->trained) continue;
    const std::int64_t n = p->shape.numel();
    c.parts[part_of(name)] += n;
    c.parameters += n;
    if (in_layers(name)) c.in_layers += n;
    if (has(name, "feed_forward.")) c.in_feed_forward += n;
    if (p->shape.rank() != 2) continue;
    // Looking a token up multiplies nothing; a shared or tied table is a product as the output projection. Keys and values of
    // the cross-attention are made from the source.
    if (name == output) target += n;
    else if (in_layers(name)) (name.starts_with("encoder.") || has(name, "cross_attention.kv") ? source : target) += n;
  }
  // A weight costs a token one product and one sum.
  c.source_token_flops = 2.0 * static_cast<double>(source);
  c.token_flops = 2.0 * static_cast<double>(target);
  return c;
}

// Every token attended to costs 4·d in each layer: d products and sums for its score, as many for its value.
double attended_flops(const StackConfig& s) { return 4.0 * static_cast<double>(s.heads * s.head_dim * s.layers); }

ModelCost cost_of_text(TextModel& model) {
  const TextConfig& text = model.text();
  const StackConfig& s = text.stack;
  const bool language = text.task == TextTask::causal_lm || text.task == TextTask::masked_lm;
  ModelCost c = count(model.parameters(), !language ? "" : text.tied ? "embedder.tokens.weight" : "head.output.weight");
  c.attended_flops = attended_flops(s);
  if (s.causal) c.cached_bytes = 8.0 * static_cast<double>(s.kv_heads * s.head_dim * s.layers);
  return c;
}

// Height or width of a setting that is one number or a list of two.
std::int64_t extent(const nlohmann::json& config, const char* key, std::size_t side, std::int64_t otherwise) {
  const auto it = config.find(key);
  return it == config.end() ? otherwise : it->is_array() ? it->at(side).get<std::int64_t>() : it->get<std::int64_t>();
}

ModelCost cost_of_patches(Model& model) {
  const std::vector<NamedParameter> parameters = model.parameters();
  ModelCost c = count(parameters, "");
  c.token_flops = 0.0;
  const nlohmann::json& config = model.config();
  // Patches, and with them the products of a stage of Swin, become a quarter from stage to stage.
  std::int64_t products = 0;
  if (Settings(config).model_type() == "swin")
    c.sample_tokens = extent(config, "image_size", 0, 224) / extent(config, "patch_size", 0, 4) *
        (extent(config, "image_size", 1, 224) / extent(config, "patch_size", 1, 4));
  for (const auto& [name, p] : parameters)
    if (name == "positions" && p->present()) c.sample_tokens = p->shape[0];
  for (const auto& [name, p] : parameters) {
    const bool merging = has(name, "merging.reduction");
    if ((!in_layers(name) && !merging) || p->shape.rank() != 2 || has(name, "bias_table")) continue;
    const std::int64_t stage = name.starts_with("stages.") ? std::min(31LL, std::stoll(name.substr(7)) + (merging ? 1 : 0)) : 0;
    products += p->shape.numel() * std::max<std::int64_t>(1, c.sample_tokens >> (2 * stage));
  }
  c.sample_flops = 2.0 * static_cast<double>(products);
  return c;
}

}  // namespace

ModelCost cost_of(EncoderDecoder& model) {
  const std::string output = model.output ? "output.weight"
      : model.decoder.embedding           ? "decoder.embedding.weight"
                                          : "encoder.embedding.weight";
  ModelCost c = count(parameters(model), output);
  c.attended_flops = attended_flops(model.decoder.stack.config);
  c.source_attended_flops = attended_flops(model.encoder.stack.config);
  return c;
}

ModelCost cost_of(Model& model) {
  if (auto* both = dynamic_cast<EncoderDecoderModel*>(&model)) return cost_of(both->network);
  if (auto* text = dynamic_cast<TextModel*>(&model)) return cost_of_text(*text);
  return cost_of_patches(model);
}

}  // namespace transformer
