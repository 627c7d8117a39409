#pragma once
// Where modalities become tokens: everything after these is the same for text, images and series.

#include "transformer/nn/linear.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/patchify.h"

namespace transformer {

// ids → scale · rows of the table. The original scales by √d_model.
struct TokenEmbedding {
  Parameter weight;  // [vocabulary, d]
  float scale = 1.0F;
  std::int64_t padding = -1;  // the row of this id learns nothing from being looked up

  TokenEmbedding() = default;
  TokenEmbedding(std::int64_t vocabulary, std::int64_t d, float by = 1.0F, float deviation = 0.02F) : scale(by) {
    weight = {.shape = {vocabulary, d}, .init = Init::normal, .deviation = deviation};
  }
  Tensor operator()(Context& ctx, const Tensor& ids) const { return embedding(ctx, ids, weight, scale, {}, padding); }
  void visit(auto&& f) { f("weight", weight); }
};

// images [n, channels, height, width] → [n · patches, d]: a 4×4 grid of patches is a sequence of 16 tokens.
struct PatchEmbedding {
  Patches patches;
  Linear projection;  // [d, channels · patch height · patch width]

  PatchEmbedding() = default;
  PatchEmbedding(std::int64_t channels, const Patches& size, std::int64_t d)
      : patches(size), projection(channels * size.height * size.width, d) {}
  Tensor operator()(Context& ctx, const Tensor& images) const;
  void visit(auto&& f) { f("projection", projection); }
};

// series [n, length] → [n · patches, d]: 30 days in patches of 6 with stride 3 are a sequence of 9 tokens.
struct SeriesEmbedding {
  std::int64_t patch = 1, stride = 1;
  Linear projection;  // [d, patch]

  SeriesEmbedding() = default;
  SeriesEmbedding(std::int64_t patch_length, std::int64_t patch_stride, std::int64_t d)
      : patch(patch_length), stride(patch_stride), projection(patch_length, d) {}
  Tensor operator()(Context& ctx, const Tensor& series) const;
  void visit(auto&& f) { f("projection", projection); }
};

}  // namespace transformer
