#pragma once
// Swin's attention, which stays within windows, on the whole grid of a stage; and its roll-out through all stages.

#include "transformer/models/swin.h"

namespace transformer {

struct SeenBlock {
  Tensor weights;                   // [windows, heads, window², window²] float32 in the host's memory
  std::vector<std::int64_t> slots;  // where each token of the grid stands: window · window² + place in it
};
struct SeenStage {
  Grid grid;
  std::vector<SeenBlock> blocks;
};

// Of one image, pixels [1, channels, height, width].
std::vector<SeenStage> seen_stages(Context& ctx, const Swin& swin, const Tensor& pixels);

// A block's weights as those of all tokens, [1, heads, tokens, tokens]: 0 from window to window.
Tensor over_grid(const SeenBlock& block);

// Roll-out: what is taken of each patch of the first stage's grid, [1 + tokens of the last stage, patches]. The first row is that of their
// mean, from which the labels are told. A block passes on half of what attention gathers and half of the token itself, as in rollout.h;
// a token that four are merged into takes as much of each.
std::vector<float> window_rollout(const std::vector<SeenStage>& stages);

}  // namespace transformer
