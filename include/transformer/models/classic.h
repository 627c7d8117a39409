#pragma once
// The layout of the original model's checkpoints: config.json with the keys of TransformerConfig, and tensors named
// as the classic PyTorch tutorial classes name them (Q, K and V in matrices of their own; or, for the encoder alone,
// fused as torch.nn.MultiheadAttention has them).

#include <filesystem>

#include "transformer/models/names.h"
#include "transformer/models/transformer.h"

namespace transformer {

std::vector<Binding> classic_bindings(Transformer& model);
std::vector<Binding> classic_bindings(Encoder& model);

// Reads model.safetensors of a folder into the model.
void load_classic(Context& ctx, Transformer& model, const std::filesystem::path& folder);
void load_classic(Context& ctx, Encoder& model, const std::filesystem::path& folder);

}  // namespace transformer
