#include "models/image_family.h"

namespace transformer {

Extent extent(Settings& settings, std::string_view key, std::int64_t fallback) {
  constexpr std::int64_t largest = 65536;
  const nlohmann::json* given = settings.find(key);
  std::vector<std::int64_t> sides;
  if (given != nullptr && given->is_array()) sides = settings.get(key, sides);
  else sides.assign(2, settings.size(key, fallback));
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1 || sides[0] > largest || sides[1] > largest)
    settings.refuse(key, "expected a size, or a list of height and width");
  return {sides[0], sides[1]};
}

void check_patches(const Settings& settings, std::int64_t channels, Extent image, Extent patch) {
  constexpr std::int64_t most = std::int64_t{1} << 28;
  if (image.height < patch.height || image.width < patch.width) settings.refuse("image_size", "an image is smaller than a patch");
  if (patch.height * patch.width > most / channels) settings.refuse("patch_size", "a patch of all channels has too many values");
}

void add_layer_rules(std::vector<NameRule>& rules, const LayerNames& names) {
  auto add = [&](const std::string& file, const std::string& now, const std::string& ours, int part = -1) {
    rules.push_back({.theirs = names.file + file, .ours = names.ours + ours, .part = part});
    if (names.file + file != names.now + now)
      rules.push_back({.theirs = names.now + now, .ours = names.ours + ours, .part = part, .tied = true});
  };
  add(names.attention + ".query", "attention.q_proj", "attention.qkv", 0);
  add(names.attention + ".key", "attention.k_proj", "attention.qkv", 1);
  add(names.attention + ".value", "attention.v_proj", "attention.qkv", 2);
  add("attention.output.dense", "attention.o_proj", "attention.out");
  add("intermediate.dense", "mlp.fc1", "feed_forward.in");
  add("output.dense", "mlp.fc2", "feed_forward.out");
  add("layernorm_before", "layernorm_before", "attention_norm");
  add("layernorm_after", "layernorm_after", "feed_forward_norm");
}

}  // namespace transformer
