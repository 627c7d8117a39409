#include "transformer/models/classic.h"

#include "io/shared/json.h"
#include "models/families.h"
#include "transformer/io/config.h"
#include "transformer/models/encoder_decoder_model.h"

namespace transformer {
namespace {

const std::vector<NameRule> transformer_rules{
    {"src_embedding", "encoder.embedding"},
    {"tgt_embedding", "decoder.embedding"},
    {"encoder.positions", "encoder.positions"},
    {"decoder.positions", "decoder.positions"},
    {"encoder.relative_positions", "encoder.stack.positions.relative"},
    {"decoder.relative_positions", "decoder.stack.positions.relative"},

    {"encoder.layers.{i}.mha.q_linear", "encoder.stack.layers.{i}.attention.qkv", 0},
    {"encoder.layers.{i}.mha.k_linear", "encoder.stack.layers.{i}.attention.qkv", 1},
    {"encoder.layers.{i}.mha.v_linear", "encoder.stack.layers.{i}.attention.qkv", 2},
    {"encoder.layers.{i}.mha.out_proj", "encoder.stack.layers.{i}.attention.out"},
    {"encoder.layers.{i}.ffn.linear1", "encoder.stack.layers.{i}.feed_forward.in"},
    {"encoder.layers.{i}.ffn.linear2", "encoder.stack.layers.{i}.feed_forward.out"},
    {"encoder.layers.{i}.norm1", "encoder.stack.layers.{i}.attention_norm"},
    {"encoder.layers.{i}.norm2", "encoder.stack.layers.{i}.feed_forward_norm"},
    {"encoder.final_norm", "encoder.stack.final_norm"},

    {"decoder.layers.{i}.self_atten.q_linear", "decoder.stack.layers.{i}.attention.qkv", 0},
    {"decoder.layers.{i}.self_atten.k_linear", "decoder.stack.layers.{i}.attention.qkv", 1},
    {"decoder.layers.{i}.self_atten.v_linear", "decoder.stack.layers.{i}.attention.qkv", 2},
    {"decoder.layers.{i}.self_atten.out_proj", "decoder.stack.layers.{i}.attention.out"},
    {"decoder.layers.{i}.cross_atten.q_linear", "decoder.stack.layers.{i}.cross_attention.q"},
    {"decoder.layers.{i}.cross_atten.k_linear", "decoder.stack.layers.{i}.cross_attention.kv", 0},
    {"decoder.layers.{i}.cross_atten.v_linear", "decoder.stack.layers.{i}.cross_attention.kv", 1},
    {"decoder.layers.{i}.cross_atten.out_proj", "decoder.stack.layers.{i}.cross_attention.out"},
    {"decoder.layers.{i}.ffn.linear1", "decoder.stack.layers.{i}.feed_forward.in"},
    {"decoder.layers.{i}.ffn.linear2", "decoder.stack.layers.{i}.feed_forward.out"},
    {"decoder.layers.{i}.norm1", "decoder.stack.layers.{i}.attention_norm"},
    {"decoder.layers.{i}.norm2", "decoder.stack.layers.{i}.cross_attention_norm"},
    {"decoder.layers.{i}.norm3", "decoder.stack.layers.{i}.feed_forward_norm"},
    {"decoder.final_norm", "decoder.stack.final_norm"},
};

const std::vector<NameRule> encoder_rules{
    {"embedding", "embedding"},
    {"positions", "positions"},
    {"relative_positions", "stack.positions.relative"},
    {"layers.{i}.attention.in_proj_", "stack.layers.{i}.attention.qkv"},
    {"layers.{i}.attention.out_proj", "stack.layers.{i}.attention.out"},
    {"layers.{i}.ffn.0", "stack.layers.{i}.feed_forward.in"},
    {"layers.{i}.ffn.3", "stack.layers.{i}.feed_forward.out"},
    {"layers.{i}.norm1", "stack.layers.{i}.attention_norm"},
    {"layers.{i}.norm2", "stack.layers.{i}.feed_forward_norm"},
    {"final_norm", "stack.final_norm"},
};

constexpr std::string_view model_type = "transformer";
constexpr const char* output_name = "output_linear";

// The sinusoidal table is computed, not trained; checkpoints may carry it as a buffer.
const std::vector<std::string_view> computed{"pos_encoder.pe", "pos_encoding.pe"};

void load_folder(Context& ctx, const std::vector<Binding>& bindings, const std::filesystem::path& folder) {
  load(ctx, bindings, SafetensorsFile(folder / "model.safetensors"), computed);
}

}  // namespace

std::vector<Binding> classic_bindings(Transformer& model) {
  std::vector<NameRule> rules = transformer_rules;
  rules.push_back({output_name, "output"});
  return bind_names(parameters(model), rules);
}
std::vector<Binding> classic_bindings(Encoder& model) { return bind_names(parameters(model), encoder_rules); }

void load_classic(Context& ctx, Transformer& model, const std::filesystem::path& folder) {
  load_folder(ctx, classic_bindings(model), folder);
}
void load_classic(Context& ctx, Encoder& model, const std::filesystem::path& folder) { load_folder(ctx, classic_bindings(model), folder); }

TransformerConfig read_transformer_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  nlohmann::json settings = read_json(path);
  if (!settings.is_object()) fail(path.string(), "not a model's settings: expected a JSON object");
  if (const auto type = settings.find("model_type"); type != settings.end()) {
    if (*type != model_type) fail(path.string(), "model_type is {}: expected \"{}\"", type->dump(), model_type);
    settings.erase(type);
  }
  TransformerConfig config;
  try {
    from_json(settings, config);
  } catch (const Error& e) {
    fail(path.string(), "{}", e.what());
  }
  return config;
}

bool is_classic(const nlohmann::json& config) { return model_type_of(config) == model_type; }

nlohmann::json classic_config(const TransformerConfig& config) {
  nlohmann::json settings = to_json(config);
  settings["model_type"] = model_type;
  return settings;
}

void write_transformer_config(const TransformerConfig& config, const std::filesystem::path& folder) {
  write_json(folder / "config.json", classic_config(config));
}

std::unique_ptr<Transformer> load_transformer(Context& ctx, const std::filesystem::path& folder) {
  auto model = std::make_unique<Transformer>(read_transformer_config(folder));
  load_classic(ctx, *model, folder);
  return model;
}

void save_transformer(Transformer& model, const std::filesystem::path& folder) {
  write_transformer_config(model.config, folder);
  save_safetensors(folder / "model.safetensors", named_tensors(classic_bindings(model)), {{"format", "pt"}});
}

namespace families {

const Family classic{.model_type = model_type,
                     .make = [](Settings& s) -> std::unique_ptr<Model> {
                       TransformerConfig config;
                       TransformerConfig::visit(config, [&](std::string_view name, auto& value, std::string_view) {
                         if (const nlohmann::json* given = s.find(name)) detail::read_value(*given, value, std::string(name));
                       });
                       EncoderDecoderOptions options{.names = transformer_rules,
                                                     .output_name = output_name,
                                                     .start = s.maybe<std::int64_t>("decoder_start_token_id"),
                                                     .pad = config.pad_id};
                       options.load.ignored.assign(computed.begin(), computed.end());
                       return std::make_unique<EncoderDecoderModel>(config.encoder_decoder(), std::move(options));
                     },
                     .dropout = {.all = {"dropout"}, .attention = {"attention_dropout"}, .feed_forward = {"ffn_dropout"}},
                     .lora_targets = {"q_linear", "v_linear"}};

}  // namespace families

}  // namespace transformer
