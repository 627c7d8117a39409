#pragma once
// What image models have in common in their config.json and in the names of their tensors.

#include "transformer/models/names.h"
#include "transformer/models/settings.h"

namespace transformer {

// Height and width of a setting that is one number or a list of the two.
struct Extent {
  std::int64_t height, width;
};
Extent extent(Settings& settings, std::string_view key, std::int64_t fallback);

// Refuses images of less than a patch, and patches of more values than any model has.
void check_patches(const Settings& settings, std::int64_t channels, Extent image, Extent patch);

// The rules of a layer of ours that begins with `ours`. It has two names: `file` in the files, where the attention is called
// `attention`, and `now` in Hugging Face's modules of today, under which it gives gradients.
struct LayerNames {
  std::string file, attention, now, ours;
};
void add_layer_rules(std::vector<NameRule>& rules, const LayerNames& names);

}  // namespace transformer
