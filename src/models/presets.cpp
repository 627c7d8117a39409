#include "transformer/models/presets.h"

#include <fmt/format.h>

#include <array>

#include "transformer/io/config.h"

namespace transformer {
namespace {

struct Preset {
  std::string_view name;
  std::int64_t d_model, num_heads, d_ff, num_layers;
  float dropout;
};
constexpr std::array presets = {
    Preset{"tiny", 128, 4, 256, 4, 0.3F},
    Preset{"small", 256, 4, 1024, 4, 0.1F},
    Preset{"base", 512, 8, 2048, 6, 0.1F},
    Preset{"big", 1024, 16, 4096, 6, 0.3F},
};

}  // namespace

std::vector<std::string> preset_names(const TransformerConfig&) {
  std::vector<std::string> names;
  for (const Preset& p : presets) names.emplace_back(p.name);
  return names;
}

void apply_preset(std::string_view name, TransformerConfig& config) {
  for (const Preset& p : presets) {
    if (p.name != name) continue;
    config.d_model = p.d_model;
    config.num_heads = p.num_heads;
    config.num_kv_heads = 0;  // as many
    config.d_ff = p.d_ff;
    config.num_layers = p.num_layers;
    config.num_decoder_layers = -1;  // as many
    config.dropout = p.dropout;
    return;
  }
  const std::vector<std::string> known = preset_names(config);
  fail("preset", "'{}' is not one of {}{}", name, fmt::join(known, ", "), did_you_mean(name, known));
}

}  // namespace transformer
