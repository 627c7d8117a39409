#include "transformer/ops/batch_norm.h"

#include "support/change.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

// (x - mean)/√(variance + eps)·weight + bias for every column; with null statistics those of x itself.
template <class S>
Array<S> reference_batch_norm(const Array<S>& x, const std::vector<float>* means, const std::vector<float>* variances, double eps,
                              const Array<S>* weight, const Array<S>* bias) {
  using ::reference::sqrt;
  Array<S> y(x.shape);
  const std::int64_t cols = x.shape.back(), rows = x.shape.numel() / cols;
  for (std::int64_t i = 0; i < cols; ++i) {
    S mean(0.0), variance(0.0);
    if (means != nullptr) {
      mean = S((*means)[static_cast<std::size_t>(i)]);
      variance = S((*variances)[static_cast<std::size_t>(i)]);
    } else {
      for (std::int64_t r = 0; r < rows; ++r) mean += x.at(r, i) / S(static_cast<double>(rows));
      for (std::int64_t r = 0; r < rows; ++r) variance += (x.at(r, i) - mean) * (x.at(r, i) - mean) / S(static_cast<double>(rows));
    }
    const S deviation = sqrt(variance + S(eps));
    for (std::int64_t r = 0; r < rows; ++r) {
      y.at(r, i) = (x.at(r, i) - mean) / deviation;
      if (weight) y.at(r, i) *= (*weight)[i];
      if (bias) y.at(r, i) += (*bias)[i];
    }
  }
  return y;
}

std::vector<float> ramp(std::int64_t n, float first, float step) {
  std::vector<float> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(first + step * static_cast<float>(i % 7));
  return v;
}

const std::vector<Shape> batch_norm_shapes = {{2, 1}, {3, 1}, {5, 17}, {4, 3, 65}, {70, 20}, {130, 33}};

Tensor run(Context& ctx, const Tensors& in, bool training) {
  const std::int64_t d = in[0].cols();
  ctx.set_training(training);
  return batch_norm(ctx, in[0],
                    {.weight = in.size() > 1 ? in[1] : Tensor(),
                     .bias = in.size() > 2 ? in[2] : Tensor(),
                     .running_mean = tensor(ctx, {d}, ramp(d, -0.3F, 0.1F)),
                     .running_variance = tensor(ctx, {d}, ramp(d, 0.5F, 0.2F))});
}

}  // namespace

TEST(BatchNorm, StatisticsOfTheBatchWhileTraining) {
  for (const Shape& shape : batch_norm_shapes) {
    const Input parameter{.shape = {shape.back()}, .master = true};
    check_op(
        {.name = "training " + shape.str(), .inputs = {{.shape = shape}, parameter, parameter}},
        [](Context& ctx, const Tensors& in) { return run(ctx, in, true); },
        [](const auto& in) { return reference_batch_norm(in[0], nullptr, nullptr, 1e-5F, &in[1], &in[2]); });
  }
}

TEST(BatchNorm, RunningStatisticsOtherwise) {
  for (const Shape& shape : batch_norm_shapes) {
    const Input parameter{.shape = {shape.back()}, .master = true};
    check_op(
        {.name = "inference " + shape.str(), .inputs = {{.shape = shape}, parameter, parameter}},
        [](Context& ctx, const Tensors& in) { return run(ctx, in, false); },
        [&](const auto& in) {
      const auto means = ramp(shape.back(), -0.3F, 0.1F), variances = ramp(shape.back(), 0.5F, 0.2F);
      return reference_batch_norm(in[0], &means, &variances, 1e-5F, &in[1], &in[2]);
        });
  }
}

TEST(BatchNorm, ParametersAreOptional) {
  for (bool training : {false, true}) {
    const auto means = ramp(19, -0.3F, 0.1F), variances = ramp(19, 0.5F, 0.2F);
    const auto *m = training ? nullptr : &means, *v = training ? nullptr : &variances;
    check_op(
        {.name = "plain", .inputs = {{.shape = {6, 19}}}}, [=](Context& ctx, const Tensors& in) { return run(ctx, in, training); },
        [=](const auto& in) { return reference_batch_norm(in[0], m, v, 1e-5F, decltype (&in[0])(nullptr), decltype (&in[0])(nullptr)); });
    check_op(
        {.name = "parameters alone have gradients", .inputs = {{.shape = {6, 19}, .gradient = false}, {.shape = {19}}, {.shape = {19}}}},
        [=](Context& ctx, const Tensors& in) { return run(ctx, in, training); },
        [=](const auto& in) { return reference_batch_norm(in[0], m, v, 1e-5F, &in[1], &in[2]); });
  }
}

// As torch.nn.BatchNorm1d: the mean moves by a tenth, the variance towards the unbiased one.
TEST(BatchNorm, TrainingMovesTheRunningStatistics) {
  Context ctx;
  ctx.set_training(true);
  const Tensor x = tensor(ctx, {4, 2}, {1, 10, 2, 10, 3, 10, 6, 14});
  BatchNormOptions o{
      .running_mean = tensor(ctx, {2}, {0, 1}), .running_variance = tensor(ctx, {2}, {1, 2}), .batches = tensor(ctx, {1}, {7})};
  batch_norm(ctx, x, o);
  expect_near(o.running_mean, {0.1 * 3.0, 0.9 + 0.1 * 11.0}, 1e-6);
  expect_near(o.running_variance, {0.9 + 0.1 * 14.0 / 3.0, 1.8 + 0.1 * 4.0}, 1e-6);
  o.momentum = 1.0F;
  batch_norm(ctx, x, o);
  expect_near(o.running_mean, {3.0, 11.0}, 1e-6);
  ctx.set_training(false);
  const Tensor y = batch_norm(ctx, x, o);
  expect_near(o.running_mean, {3.0, 11.0}, 0.0);  // untouched
  expect_near(o.batches, {9.0}, 0.0);
  expect_near(y, {-0.92582, -0.5, -0.46291, -0.5, 0.0, -0.5, 1.38873, 1.5}, 1e-4);
}

// Backward is that of the forward pass, though the running statistics have moved since.
TEST(BatchNorm, BackwardUsesTheStatisticsOfItsForward) {
  Context ctx;
  Tensor x = tensor(ctx, {3, 1}, {1, 2, 4}), w = tensor(ctx, {1}, {1});
  require_grad(w);
  BatchNormOptions o{.weight = w, .running_mean = tensor(ctx, {1}, {1}), .running_variance = tensor(ctx, {1}, {1}), .eps = 0.0F};
  const Tensor y = batch_norm(ctx, x, o);
  change(ctx, o.running_mean, [](std::vector<float>& mean) { mean[0] = 100.0F; });
  backward(ctx, y, tensor(ctx, {3, 1}, {1, 1, 1}));
  expect_near(gradient(w), {0.0 + 1.0 + 3.0}, 1e-6);
}

// A mean far from zero cancels in E[x²] - E[x]².
TEST(BatchNorm, VarianceIsExactFarFromZero) {
  Context ctx;
  ctx.set_training(true);
  std::vector<float> values;
  for (int i = 0; i < 200; ++i) values.push_back(4096.0F + static_cast<float>(i % 2));
  const BatchNormOptions o{.running_mean = tensor(ctx, {1}, {0}), .running_variance = tensor(ctx, {1}, {1}), .eps = 0.0F};
  const Tensor y = batch_norm(ctx, tensor(ctx, {200, 1}, values), o);
  for (int i = 0; i < 200; ++i) EXPECT_NEAR(y.to_vector<float>()[static_cast<std::size_t>(i)], i % 2 == 0 ? -1.0 : 1.0, 1e-5);
}

TEST(BatchNorm, Errors) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {1, 4}), four = Tensor::full(ctx, {4}, 1.0F), three = Tensor::zeros(ctx, {3});
  const BatchNormOptions good{.running_mean = four, .running_variance = four};
  auto with = [&](auto&& change) {
    BatchNormOptions o = good;
    change(o);
    return [&ctx, x, o] { batch_norm(ctx, x, o); };
  };
  expect_error(with([&](auto& o) { o.running_mean = {}; }), {"batch_norm", "running_mean"});
  expect_error(with([&](auto& o) { o.running_variance = three; }), {"running_variance", "[3]", "[4]"});
  expect_error(with([&](auto& o) { o.running_mean = Tensor::zeros(ctx, {4}, DType::bfloat16); }), {"running_mean", "bfloat16", "float32"});
  expect_error(with([&](auto& o) { o.weight = three; }), {"weight", "[3]"});
  expect_error(with([&](auto& o) { o.eps = -1.0F; }), {"eps", "-1"});
  expect_error(with([&](auto& o) { o.momentum = 2.0F; }), {"momentum", "2"});
  ctx.set_training(true);
  expect_error(with([](auto&) {}), {"batch_norm", "1 rows", "two or more"});
}

}  // namespace transformer::test
