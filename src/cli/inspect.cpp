// transformer inspect: the parameters of a model by part, its share of feed-forward, FLOPs and memory, from its settings alone:
// those of a folder of any family, or flags for an encoder-decoder that is yet to be.
#include <map>
#include <memory>
#include <optional>

#include "cli/flags.h"
#include "cli/verbs.h"
#include "io/shared/json.h"
#include "transformer/models/classic.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/models/text.h"

namespace transformer::cli {
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

struct Counts {
  std::map<std::string, std::int64_t> parts;
  std::int64_t total = 0, layers = 0, feed_forward = 0;
  std::int64_t source = 0, target = 0;  // weights that every source or target token is multiplied with
};

// output: the matrix that makes the logits, where it is known.
Counts count(const std::vector<NamedParameter>& parameters, const std::string& output) {
  Counts c;
  for (const auto& [name, p] : parameters) {
    if (!p->trained) continue;
    const std::int64_t n = p->shape.numel();
    c.parts[part_of(name)] += n;
    c.total += n;
    if (in_layers(name)) c.layers += n;
    if (has(name, "feed_forward.")) c.feed_forward += n;
    if (p->shape.rank() != 2) continue;
    // Looking a token up multiplies nothing; a shared or tied table is a product as the output projection. Keys and values of
    // the cross-attention are made from the source.
    if (name == output) c.target += n;
    else if (in_layers(name)) (name.starts_with("encoder.") || has(name, "cross_attention.kv") ? c.source : c.target) += n;
  }
  return c;
}

void print(const Counts& c) {
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  fmt::print("{:<26}{:>14}{:>10}\n", "part", "parameters", "share");
  for (const auto& [part, n] : c.parts) fmt::print("{:<26}{:>14}{:>8.1f} %\n", part, n, 100.0 * number(n) / number(c.total));
  fmt::print("{:<26}{:>14}\n\n", "total", c.total);
  if (c.layers > 0)
    fmt::print("feed-forward: {:.1f} % of the layers' parameters, {:.1f} % of all\n", 100.0 * number(c.feed_forward) / number(c.layers),
               100.0 * number(c.feed_forward) / number(c.total));
}

void print_memory(const Counts& c) {
  const auto total = static_cast<double>(c.total);
  fmt::print("memory: {:.1f} MB of weights in float32, {:.1f} MB in bfloat16\n", 4e-6 * total, 2e-6 * total);
  fmt::print("  to train: {:.1f} MB with gradients and Adam's state, {:.1f} MB with bfloat16 copies too; and the activations\n",
             16e-6 * total, 18e-6 * total);
}

void inspect(EncoderDecoder& model) {
  const std::string output = model.output ? "output.weight"
      : model.decoder.embedding           ? "decoder.embedding.weight"
                                          : "encoder.embedding.weight";
  const Counts c = count(parameters(model), output);
  print(c);
  // A weight costs a token one product and one sum forward, and twice that backward. Every token attended to costs 4·d in each
  // layer: d products and sums for its score, as many for its value.
  const auto attention = [](const StackConfig& s) { return 4e-6 * static_cast<double>(s.heads * s.head_dim * s.layers); };
  fmt::print("FLOPs forward: {:.2f} M per source token, {:.2f} M per target token; three times that to train\n",
             2e-6 * static_cast<double>(c.source), 2e-6 * static_cast<double>(c.target));
  fmt::print("  and for each token attended to: {:.4f} M in the encoder, {:.4f} M in the decoder and as much for each source token\n",
             attention(model.encoder.stack.config), attention(model.decoder.stack.config));
  print_memory(c);
}

void inspect(TextModel& model) {
  const TextConfig& text = model.text();
  const bool language = text.task == TextTask::causal_lm || text.task == TextTask::masked_lm;
  const Counts c = count(model.parameters(), !language ? "" : text.tied ? "embedder.tokens.weight" : "head.output.weight");
  const StackConfig& s = text.stack;
  print(c);
  fmt::print("FLOPs forward: {:.2f} M per token; three times that to train\n", 2e-6 * static_cast<double>(c.target));
  fmt::print("  and for each token attended to: {:.4f} M\n", 4e-6 * static_cast<double>(s.heads * s.head_dim * s.layers));
  print_memory(c);
  if (s.causal)
    fmt::print("  to generate: {:.1f} KB more for each token of a sequence, in float32\n",
               8e-3 * static_cast<double>(s.kv_heads * s.head_dim * s.layers));
}

// Height or width of a setting that is one number or a list of two.
std::int64_t extent(const nlohmann::json& config, const char* key, std::size_t side, std::int64_t otherwise) {
  const auto it = config.find(key);
  return it == config.end() ? otherwise : it->is_array() ? it->at(side).get<std::int64_t>() : it->get<std::int64_t>();
}

// Models of images and series: what is computed for a whole one.
void inspect_patches(Model& model) {
  const std::vector<NamedParameter> parameters = model.parameters();
  const Counts c = count(parameters, "");
  print(c);
  const nlohmann::json& config = model.config();
  const std::string type = config.at("model_type").get<std::string>();
  // Patches, and with them the products of a stage of Swin, become a quarter from stage to stage.
  std::int64_t tokens = 0, products = 0;
  if (type == "swin")
    tokens = extent(config, "image_size", 0, 224) / extent(config, "patch_size", 0, 4) *
        (extent(config, "image_size", 1, 224) / extent(config, "patch_size", 1, 4));
  for (const auto& [name, p] : parameters)
    if (name == "positions" && p->present()) tokens = p->shape[0];
  for (const auto& [name, p] : parameters) {
    const bool merging = has(name, "merging.reduction");
    if ((!in_layers(name) && !merging) || p->shape.rank() != 2 || has(name, "bias_table")) continue;
    const std::int64_t stage = name.starts_with("stages.") ? std::min(31LL, std::stoll(name.substr(7)) + (merging ? 1 : 0)) : 0;
    products += p->shape.numel() * std::max<std::int64_t>(1, tokens >> (2 * stage));
  }
  fmt::print("FLOPs forward: {:.2f} M in the layers for {} of {} patches and special tokens; three times that to train\n",
             2e-6 * static_cast<double>(products), type == "patchtst" ? "a channel of a series" : "an image", tokens);
  print_memory(c);
}

void inspect(const TransformerConfig& config, const std::optional<nlohmann::json>& folder) {
  if (!folder) {
    Transformer model(config);
    return inspect(model);
  }
  if (to_json(config) != to_json(TransformerConfig{}))
    throw CLI::ValidationError("flags change the settings of models of type transformer only; MODEL is of type " +
                               folder->at("model_type").get<std::string>());
  const std::unique_ptr<Model> model = make_model(*folder);
  if (auto* seq2seq = dynamic_cast<EncoderDecoderModel*>(model.get())) return inspect(seq2seq->network);
  if (auto* text = dynamic_cast<TextModel*>(model.get())) return inspect(*text);
  inspect_patches(*model);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "parameters by part, FLOPs and memory of a model");
  auto config = std::make_shared<TransformerConfig>();
  auto other = std::make_shared<std::optional<nlohmann::json>>();  // config.json of another family
  const auto read = [config, other](const std::string& folder) {
    const nlohmann::json settings = read_json(std::filesystem::path(folder) / "config.json");
    if (settings.is_object() && settings.value("model_type", nlohmann::json("transformer")) != "transformer") *other = settings;
    else *config = read_transformer_config(folder);
  };
  verb->add_option_function<std::string>("MODEL", read, "a model's folder; of a model of type transformer, flags change the settings");
  add_settings(*verb, *config);
  verb->callback([config, other] { inspect(*config, *other); });
}

}  // namespace transformer::cli
