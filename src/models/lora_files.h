#pragma once
// The files of an adapter's folder, as PEFT writes them.

#include "transformer/models/lora.h"

namespace transformer {

constexpr const char* adapter_config_file = "adapter_config.json";
const std::string peft_prefix = "base_model.model.", lora_a = ".lora_A.weight", lora_b = ".lora_B.weight";

struct AdapterFiles {
  SafetensorsFile weights;
  LoraConfig config;

  // Error names a setting of adapter_config.json that is not supported.
  explicit AdapterFiles(const std::filesystem::path& folder);
};

// adapter_config.json. model: config.json; ranks: of modules that have another; transposed: a matrix that is adapted is stored the other
// way round (GPT-2).
nlohmann::json adapter_json(const LoraConfig& config, const nlohmann::json& model, const std::filesystem::path& base,
                            const nlohmann::json& ranks, bool transposed);

}  // namespace transformer
