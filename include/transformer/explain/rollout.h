#pragma once
// Attention roll-out (Abnar and Zuidema, 2020): where in an image, or a text, a Transformer's answer comes from. A layer passes on half
// of what attention gathers, and half of the token itself, so that through all layers a token takes from the input
//   R = Â_n · … · Â_2 · Â_1,   Â = (A + I) / 2 with rows that sum to 1,   A the mean over the heads.
//
//   Rollout map = image_rollout(ctx, *model, processor(ctx, {image}));
//   std::ofstream("map.svg") << rollout_svg(processor.shape(image), map, "cat, 0.93");

#include <cstdint>
#include <string>
#include <vector>

#include "transformer/explain/theme.h"
#include "transformer/models/model.h"
#include "transformer/vision/image.h"

namespace transformer {

// attentions: of each layer [samples, heads, tokens, tokens], as a model gives them. → [tokens, tokens] of one sample: row i is what token
// i takes of each, and sums to 1.
std::vector<float> attention_rollout(const std::vector<Tensor>& attentions, std::int64_t sample = 0);

struct Rollout {
  std::int64_t rows = 0, columns = 0;  // of patches
  std::vector<float> values = {};  // [rows, columns]: what the labels are told from, the first token or Swin's mean of all, takes of each
};
// Of the first image of pixel_values [images, channels, height, width]; of Swin of the one there is. Error for models of other things.
Rollout image_rollout(Context& ctx, const Model& model, const Tensor& pixel_values);

// The image, as the model sees it (ImageProcessor::shape), with the patches coloured by how much is taken of them: as SVG with every
// value as a tooltip, or as pixels.
std::string rollout_svg(const Image& image, const Rollout& rollout, const std::string& caption, Theme theme = Theme::automatic);
Image rollout_picture(const Image& image, const Rollout& rollout);

}  // namespace transformer
