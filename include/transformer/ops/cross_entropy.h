#pragma once
// Cross-entropy: the loss of predicting a target among `vocab` classes, with label smoothing ε:
//   loss_i = -(1-ε)·log p_i[target_i] - ε·mean_v log p_i[v],   p_i = softmax(logits_i)

#include <cstdint>

#include "transformer/autograd/autograd.h"

namespace transformer {

struct CrossEntropyOptions {
  float label_smoothing = 0.0F;                   // ε in [0, 1]
  std::int64_t ignore = -100;                     // targets of this value count for nothing
  enum Reduction { mean, sum } reduction = mean;  // mean: over the targets that are not ignored; 0 when there are none
  std::int64_t chunk_rows = 0;                    // linear_cross_entropy: rows of logits at a time, at most; 0: the device chooses
  std::int64_t fixed_row = -1;                    // linear_cross_entropy: a row of weight that gets no gradient
};

// logits [n, vocab], targets [n] int32 or int64 → loss [1] float32. A target outside [0, vocab) that is not
// `ignore` is an Error.
Tensor cross_entropy(Context& ctx, const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

// The loss of logits = x·weightᵀ + bias, without the logits ever existing as a whole: a few hundred rows at a
// time are made, turned into loss and gradient, and multiplied back into the gradients of x, weight and bias.
//   x [n, d], weight [vocab, d], bias [vocab] or undefined, targets [n] → loss [1] float32
Tensor linear_cross_entropy(Context& ctx, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            const CrossEntropyOptions& options = {});

}  // namespace transformer
