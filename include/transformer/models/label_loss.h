#pragma once
// The loss of a head that gives one row of scores per sample, of the kind Hugging Face chooses: cross-entropy for labels that
// are classes, mean squared error for one number per sample, binary cross-entropy for several labels at once.

#include "transformer/core/context.h"
#include "transformer/core/tensor.h"
#include "transformer/models/settings.h"

namespace transformer {

enum class ProblemType : std::uint8_t {
  by_labels,  // regression for one score, single_label for integer labels, multi_label otherwise
  regression,
  single_label,
  multi_label,
};
ProblemType problem_type(Settings& settings);  // what the key problem_type says

// logits [n, classes]; labels [n] integers, or [n, classes] (or [n] for one score) numbers → loss [1] float32
Tensor label_loss(Context& ctx, const Tensor& logits, const Tensor& labels, ProblemType type = ProblemType::by_labels);

// mean((a - b)²) → [1] float32; a and b of one shape
Tensor mean_squared_error(Context& ctx, const Tensor& a, const Tensor& b);

// What quantiles are learned by: least where a share q of the actual values lies below what is predicted for q. With e = actual -
// predicted it is the mean of max(q·e, (q - 1)·e). predicted [..., quantiles]; actual [...] → [1] float32
Tensor pinball_loss(Context& ctx, const Tensor& predicted, const Tensor& actual, const std::vector<double>& quantiles);

}  // namespace transformer
