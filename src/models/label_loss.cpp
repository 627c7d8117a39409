#include "transformer/models/label_loss.h"

#include "transformer/ops/activation.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

// mean(max(z, 0) - z·y + log(1 + e^-|z|)): never the exponential of a large number.
Tensor binary_cross_entropy(Context& ctx, const Tensor& z, const Tensor& y) {
  const Tensor tail = log(ctx, add(ctx, exp(ctx, neg(ctx, abs(ctx, z))), Tensor::full(ctx, {1}, 1.0F)));
  return mean(ctx, add(ctx, sub(ctx, relu(ctx, z), mul(ctx, z, y)), tail));
}

}  // namespace

ProblemType problem_type(Settings& settings) {
  const auto name = settings.maybe<std::string>("problem_type");
  if (!name) return ProblemType::by_labels;
  if (*name == "regression") return ProblemType::regression;
  if (*name == "single_label_classification") return ProblemType::single_label;
  if (*name == "multi_label_classification") return ProblemType::multi_label;
  settings.refuse("problem_type", "expected regression, single_label_classification or multi_label_classification");
}

Tensor mean_squared_error(Context& ctx, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) fail("loss", "{} is compared with {}: expected the same shape", a.shape(), b.shape());
  const Tensor difference = sub(ctx, cast(ctx, a, DType::float32), cast(ctx, b, DType::float32));
  return reshape(ctx, mean(ctx, square(ctx, difference)), {1});
}

// max(q·e, (q - 1)·e) = |e|/2 + (q - 1/2)·e
Tensor pinball_loss(Context& ctx, const Tensor& predicted, const Tensor& actual, const std::vector<double>& quantiles) {
  Shape each = predicted.shape();
  if (each.rank() == 0 || each.back() != std::ssize(quantiles) || actual.numel() * each.back() != predicted.numel())
    fail("loss", "{} is compared with {}: expected the same shape and {} quantiles behind it", predicted.shape(), actual.shape(),
         quantiles.size());
  each[-1] = 1;
  std::vector<float> tilt;
  for (const double q : quantiles) tilt.push_back(static_cast<float>(q - 0.5));
  const Tensor e = sub(ctx, reshape(ctx, cast(ctx, actual, DType::float32), each), cast(ctx, predicted, DType::float32));
  const Tensor tilted = mul(ctx, e, Tensor::from<float>(ctx, {std::ssize(tilt)}, tilt));
  return reshape(ctx, mean(ctx, add(ctx, scale(ctx, abs(ctx, e), 0.5F), tilted)), {1});
}

Tensor label_loss(Context& ctx, const Tensor& logits, const Tensor& labels, ProblemType type) {
  if (logits.rank() != 2) fail("loss", "logits {} must be [samples, classes]", logits.shape());
  const std::int64_t n = logits.dim(0), classes = logits.dim(1);
  if (type == ProblemType::by_labels) {
    type = classes == 1 ? ProblemType::regression : is_float(labels.dtype()) ? ProblemType::multi_label : ProblemType::single_label;
  }
  const std::int64_t expected = type == ProblemType::single_label ? n : n * classes;
  if (labels.numel() != expected)
    fail("loss", "labels {} do not fit logits {}: expected {} of them", labels.shape(), logits.shape(), expected);
  if (type == ProblemType::single_label) return cross_entropy(ctx, logits, labels.view({n}));
  const Tensor wanted = cast(ctx, labels.view(logits.shape()), DType::float32), scores = cast(ctx, logits, DType::float32);
  if (type == ProblemType::regression) return mean_squared_error(ctx, scores, wanted);
  return reshape(ctx, binary_cross_entropy(ctx, scores, wanted), {1});
}

}  // namespace transformer
