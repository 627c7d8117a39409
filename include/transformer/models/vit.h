#pragma once
// Vision Transformers: an image cut into patches is a sequence. ViT, and DeiT, which has a second head that learns from a
// teacher.
//
//   auto model = load_model(ctx, "vit-base-patch16-224");
//   model->run(ctx, {{"pixel_values", images}}).at("logits");          // images [batch, channels, height, width]

#include "transformer/models/label_loss.h"
#include "transformer/models/model.h"
#include "transformer/nn/embedding.h"
#include "transformer/nn/stack.h"

namespace transformer {

struct VitConfig {
  StackConfig stack = {};                                // without a final norm: hidden states are given as they are before it
  std::int64_t channels = 3, height = 224, width = 224;  // of the images
  Patches patches = {16, 16};
  float dropout = 0.0F;                             // of the embeddings
  bool distillation = false;                        // DeiT: a second token beside the first
  std::int64_t labels = 0;                          // 0: no head
  bool teacher_head = false;                        // the second token has a head of its own, and the logits are the mean of both
  std::int64_t pooler = 0;                          // > 0: a projection of the first token onto so many values, and
  Activation pooler_activation = Activation::none;  // what comes behind it, unless
  bool pooler_tanh = true;                          // it is tanh
};

struct Vit {
  VitConfig config;
  PatchEmbedding patches;
  Parameter cls_token, distillation_token;  // [1, d]
  Parameter positions;                      // [tokens, d]
  Stack stack;
  Norm norm;
  std::optional<Linear> pooler, classifier, teacher_classifier;

  Vit() = default;
  explicit Vit(const VitConfig& config);

  std::int64_t tokens() const { return positions.shape[0]; }  // of an image
  // images [batch, channels, height, width] → [batch · tokens, d], the first token (the first two of DeiT) being no patch
  Tensor embed(Context& ctx, const Tensor& images) const;
  Tensor operator()(Context& ctx, const Tensor& images, StackTrace* trace = nullptr) const;  // [batch, tokens, d], normed
  void visit(auto&& f) {
    f("patches", patches), f("cls_token", cls_token), f("distillation_token", distillation_token), f("positions", positions);
    f("stack", stack), f("norm", norm);
    f("pooler", pooler), f("classifier", classifier), f("teacher_classifier", teacher_classifier);
  }
};

// The network of a ViT or DeiT model; null for others.
const Vit* vit_of(const Model& model);

}  // namespace transformer
