#pragma once
// The layout of the original model's checkpoints: config.json with the keys of TransformerConfig, and tensors named
// as the classic PyTorch tutorial classes name them (Q, K and V in matrices of their own; or, for the encoder alone,
// fused as torch.nn.MultiheadAttention has them).

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "transformer/models/names.h"
#include "transformer/models/transformer.h"

namespace transformer {

std::vector<Binding> classic_bindings(Transformer& model);
std::vector<Binding> classic_bindings(Encoder& model);

// Reads model.safetensors of a folder into the model.
void load_classic(Context& ctx, Transformer& model, const std::filesystem::path& folder);
void load_classic(Context& ctx, Encoder& model, const std::filesystem::path& folder);

// A whole model from its folder, or into it: config.json, which says model_type "transformer", and model.safetensors.
// Reading refuses a config of another model type, or a key it does not know, by name. Each file is written atomically.
std::unique_ptr<Transformer> load_transformer(Context& ctx, const std::filesystem::path& folder);
bool is_classic(const nlohmann::json& config);                   // model_type "transformer", or none
nlohmann::json classic_config(const TransformerConfig& config);  // what config.json says
TransformerConfig read_transformer_config(const std::filesystem::path& folder);
void write_transformer_config(const TransformerConfig& config, const std::filesystem::path& folder);
void save_transformer(Transformer& model, const std::filesystem::path& folder);

}  // namespace transformer
