#pragma once
// LoRA: a large model trained further with a small adapter. The weights W of the model stay as they are, and beside some of them two
// narrow matrices are trained:
//   y = W x + s · B(A(dropout(x))),   s = alpha / rank
//
//   auto model = load_model(ctx, "gpt2", {.lora = {.rank = 8}});       // fresh: B is 0, so that nothing changes yet
//   Adam optimizer(ctx, trained_parameters(*model));
//   …
//   save_adapter(ctx, *model, "adapter", "gpt2");
//   auto again = load_model(ctx, "gpt2", {.adapter = "adapter"});      // or load_model(ctx, "adapter")
//   merge_lora(ctx, *again);                                           // W ← W + s · B A: an ordinary model
//
// The adapter's folder has the layout of PEFT, under the module names of Hugging Face's models, and opens there:
//   adapter_config.json         rank, alpha, targets, the base model's folder
//   adapter_model.safetensors   base_model.model.<module>.lora_A.weight and .lora_B.weight, and modules that are trained whole
//   config.json                 of the model with its adapter: a head of other classes, another dropout. PEFT does not need it
// A module that is trained whole (modules_to_save) is a classifier, or what the base model did not have.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "transformer/models/model.h"

namespace transformer {

constexpr const char* adapter_weights_file = "adapter_model.safetensors";

// Where a model and the adapter on it are.
struct ModelFolder {
  std::filesystem::path base, adapter;  // no adapter: empty
  nlohmann::json config() const;        // config.json of the model with its adapter
};
// `folder` may be an adapter's own, which names its base. Error when that is not there.
ModelFolder model_folder(const std::filesystem::path& folder, const std::filesystem::path& adapter = {});

// What load_model does with its options `lora` and `adapter`. fresh: the parameters that the base's files did not have.
void add_lora(Context& ctx, Model& model, LoraConfig config, const std::vector<NamedParameter>& fresh = {});
void open_adapter(Context& ctx, Model& model, const std::filesystem::path& folder, const std::vector<NamedParameter>& fresh = {});

// The parameters that are trained: with an adapter, its own and those of modules that are trained whole.
std::vector<NamedParameter> trained_parameters(Model& model);
// The adapter's tensors under PEFT's names.
std::vector<Binding> adapter_bindings(Model& model);

// Into a folder and, into a model that has the same adapter, back. base: what adapter_config.json names.
void save_adapter(Context& ctx, Model& model, const std::filesystem::path& folder, const std::filesystem::path& base);
void load_adapter(Context& ctx, Model& model, const std::filesystem::path& folder);

// Adds the adapter to the weights, which must be float32, and takes it away.
void merge_lora(Context& ctx, Model& model);

}  // namespace transformer
