#pragma once
// Swin: attention within windows of a grid of patches. Every second block moves the windows by half their size, so that what
// one block separates the next one joins; between stages four neighbours become one token of twice the width.

#include "transformer/models/label_loss.h"
#include "transformer/models/model.h"
#include "transformer/nn/embedding.h"
#include "transformer/nn/stack.h"
#include "transformer/ops/pack.h"

namespace transformer {

struct SwinConfig {
  std::int64_t channels = 3, height = 224, width = 224;
  Patches patches = {4, 4};
  std::int64_t d = 96;                                                      // of the first stage; each one after it has twice as much
  std::vector<std::int64_t> depths = {2, 2, 6, 2}, heads = {3, 6, 12, 24};  // of each stage
  std::int64_t window = 7;
  double ffn_ratio = 4.0;
  FeedForwardKind feed_forward = FeedForwardKind::gelu;
  bool qkv_bias = true;
  float norm_eps = 1e-5F;
  float dropout = 0.0F, attention_dropout = 0.0F;
  float drop_path = 0.0F;        // the last block's probability of being left out of a sample; the first one's is 0
  bool added_positions = false;  // a learned table, for images of this size only
  std::int64_t labels = 0;       // 0: no head
};

// The tokens of a batch of images, row by row.
struct Grid {
  std::int64_t batch, height, width;
  std::int64_t tokens() const { return batch * height * width; }
};

// The grid cut into windows that may be shifted, cyclically; where they do not divide it, zeros are added right and below.
struct Windows {
  Packing packing;  // unpack: [tokens, d] → [windows, window², d]; pack: back
  Tensor mask;      // shifted: float32 [windows, 1, window², window²], -100 between tokens that are not neighbours; else undefined
};
Windows cut_windows(Context& ctx, const Grid& grid, std::int64_t window, std::int64_t shift);

struct SwinBlock {
  static constexpr bool is_layer = true;
  std::int64_t window = 7;
  bool shifted = false;
  float drop_path = 0.0F;
  Attention attention;
  Parameter bias_table;  // [(2·window - 1)², heads], a value for each distance in y and x
  FeedForward feed_forward;
  Residual around_attention, around_feed_forward;

  SwinBlock(const StackConfig& resolved, std::int64_t window, bool shifted, float drop_path);
  // x [tokens, d]; weights, when asked for, [windows, heads, window², window²]
  Tensor operator()(Context& ctx, const Tensor& x, const Windows& windows, Tensor* weights) const;
  Tensor relative_bias(Context& ctx) const;  // float32 [1, heads, window², window²]
  void visit(auto&& f) {
    f("attention", attention), f("bias_table", bias_table), f("feed_forward", feed_forward);
    f("attention_norm", around_attention.norm), f("feed_forward_norm", around_feed_forward.norm);
  }
};

// Four neighbours of a grid to one token of twice the width.
struct PatchMerging {
  Norm norm;         // [4·d]
  Linear reduction;  // 4·d → 2·d

  explicit PatchMerging(std::int64_t d) : norm(NormKind::layer_norm, 4 * d, 1e-5F), reduction(4 * d, 2 * d, false) {}
  Tensor operator()(Context& ctx, const Tensor& x, Grid& grid) const;  // halves the grid
  void visit(auto&& f) { f("norm", norm), f("reduction", reduction); }
};

struct SwinStage {
  std::int64_t window = 7;
  std::vector<SwinBlock> blocks;
  std::optional<PatchMerging> merging;  // all but the last

  // weights, when asked for: of each block
  Tensor operator()(Context& ctx, Tensor x, Grid& grid, std::vector<Tensor>* weights) const;
  void visit(auto&& f) { f("blocks", blocks), f("merging", merging); }
};

struct SwinTrace {
  std::vector<Tensor> hidden_states;            // [batch, tokens, d]: the embeddings, then the output of each stage
  std::vector<std::vector<Tensor>> attentions;  // of each stage its blocks' weights
};

struct Swin {
  SwinConfig config;
  PatchEmbedding patches;
  Norm embedding_norm;
  Parameter positions;  // [tokens, d]
  std::vector<SwinStage> stages;
  Norm norm;
  std::optional<Linear> classifier;

  explicit Swin(const SwinConfig& config);
  std::int64_t features() const { return norm.weight.shape[0]; }
  // images [batch, channels, height, width] → [batch, tokens, features], normed
  Tensor operator()(Context& ctx, const Tensor& images, SwinTrace* trace = nullptr) const;
  void visit(auto&& f) {
    f("patches", patches), f("embedding_norm", embedding_norm), f("positions", positions), f("stages", stages), f("norm", norm);
    f("classifier", classifier);
  }
};

// How the windows of a block lie on the grid of its stage: by how much they are moved.
std::int64_t shift_of(const SwinStage& stage, const SwinBlock& block, const Grid& grid);

// The network of a Swin model; null for others.
const Swin* swin_of(const Model& model);

}  // namespace transformer
