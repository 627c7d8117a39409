#include "transformer/ops/norm.h"

#include <cstring>

#include "support/op_check.h"

namespace transformer::test {
namespace {

// norm(x)·weight + bias; weight and bias may be null.
template <class S>
Array<S> reference_norm(const Array<S>& x, NormKind kind, double eps, const Array<S>* weight, const Array<S>* bias) {
  using ::reference::sqrt;
  Array<S> y(x.shape);
  const std::int64_t n = x.shape.back(), rows = n == 0 ? 0 : x.shape.numel() / n;
  for (std::int64_t r = 0; r < rows; ++r) {
    S mean(0.0), variance(0.0);
    if (kind == NormKind::layer_norm)
      for (std::int64_t i = 0; i < n; ++i) mean += x.at(r, i) / S(static_cast<double>(n));
    for (std::int64_t i = 0; i < n; ++i) variance += (x.at(r, i) - mean) * (x.at(r, i) - mean) / S(static_cast<double>(n));
    const S deviation = sqrt(variance + S(eps));
    for (std::int64_t i = 0; i < n; ++i) {
      y.at(r, i) = (x.at(r, i) - mean) / deviation;
      if (weight) y.at(r, i) *= (*weight)[i];
      if (bias) y.at(r, i) += (*bias)[i];
    }
  }
  return y;
}

// x + dropout(sub), the mask that of the context's first stream.
template <class S>
Array<S> reference_sum(const Array<S>& x, const Array<S>& sub, double p, std::uint64_t seed) {
  Array<S> sum = x;
  const RandomStream stream{seed, 0, 0};
  for (std::size_t i = 0; i < sum.values.size(); ++i)
    if (p == 0.0 || stream.bits(i) >= static_cast<std::uint32_t>(static_cast<float>(p) * 0x1p32))
      sum.values[i] += sub.values[i] / S(1.0 - p);
  return sum;
}

const std::vector<Shape> norm_shapes = {{1, 1}, {3, 1}, {1, 3}, {5, 17}, {2, 3, 65}, {70, 20}, {0, 8}, {17}};

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to_host(), y = b.to_host();
  return a.numel() == b.numel() && std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(a.numel() * size_of(a.dtype()))) == 0;
}

}  // namespace

TEST(Norm, LayerNormAgreesWithReference) {
  for (const Shape& shape : norm_shapes) {
    const Input parameter{.shape = {shape.back()}, .master = true};
    check_op(
        {.name = "layer_norm " + shape.str(), .inputs = {{.shape = shape}, parameter, parameter}},
        [](Context& ctx, const Tensors& in) { return layer_norm(ctx, in[0], in[1], in[2]); },
        [](const auto& in) { return reference_norm(in[0], NormKind::layer_norm, 1e-5F, &in[1], &in[2]); });
  }
}

TEST(Norm, RmsNormAgreesWithReference) {
  for (const Shape& shape : norm_shapes)
    check_op(
        {.name = "rms_norm " + shape.str(), .inputs = {{.shape = shape}, {.shape = {shape.back()}, .master = true}}},
        [](Context& ctx, const Tensors& in) { return rms_norm(ctx, in[0], in[1]); },
        [](const auto& in) { return reference_norm(in[0], NormKind::rms_norm, 1e-6F, &in[1], decltype (&in[1])(nullptr)); });
}

TEST(Norm, ParametersAreOptional) {
  for (NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    check_op(
        {.name = "plain", .inputs = {{.shape = {4, 19}}}},
        [=](Context& ctx, const Tensors& in) { return norm(ctx, in[0], {.kind = kind, .weight = {}, .bias = {}}); },
        [=](const auto& in) { return reference_norm(in[0], kind, 1e-5F, decltype (&in[0])(nullptr), decltype (&in[0])(nullptr)); });
    check_op(
        {.name = "bias only", .inputs = {{.shape = {4, 19}}, {.shape = {19}}}},  // in the dtype of x
        [=](Context& ctx, const Tensors& in) { return norm(ctx, in[0], {.kind = kind, .weight = {}, .bias = in[1]}); },
        [=](const auto& in) { return reference_norm(in[0], kind, 1e-5F, decltype (&in[0])(nullptr), &in[1]); });
    check_op(
        {.name = "weight only", .inputs = {{.shape = {4, 19}}, {.shape = {19}}}},
        [=](Context& ctx, const Tensors& in) { return norm(ctx, in[0], {.kind = kind, .weight = in[1], .bias = {}}); },
        [=](const auto& in) { return reference_norm(in[0], kind, 1e-5F, &in[1], decltype (&in[0])(nullptr)); });
    check_op(
        {.name = "parameters alone have gradients",
         .inputs = {{.shape = {70, 3}, .gradient = false}, {.shape = {3}, .master = true}, {.shape = {3}, .master = true}}},
        [=](Context& ctx, const Tensors& in) { return norm(ctx, in[0], {.kind = kind, .weight = in[1], .bias = in[2]}); },
        [=](const auto& in) { return reference_norm(in[0], kind, 1e-5F, &in[1], &in[2]); });
  }
}

// A mean far from zero cancels in E[x²] - E[x]².
TEST(Norm, VarianceIsExactFarFromZero) {
  Context ctx;
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(4096.0F + static_cast<float>(i % 2));
  const Tensor y = layer_norm(ctx, tensor(ctx, {1, 64}, values), {}, {}, 0.0F);
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(y.to_vector<float>()[static_cast<std::size_t>(i)], i % 2 == 0 ? -1.0 : 1.0, 1e-6);
}

TEST(Norm, FollowsRowStrides) {
  Context ctx;
  const Tensor wide = tensor(ctx, {2, 4}, {9, 1, 3, 9, 9, 2, 6, 9});
  expect_near(layer_norm(ctx, wide.column_block(1, 2), {}, {}, 0.0F), {-1, 1, -1, 1}, 1e-6);
  expect_near(add_dropout(ctx, wide.column_block(1, 2), wide.column_block(0, 2), 0.0F), {10, 4, 11, 8}, 0.0);
}

TEST(AddNorm, BothResultsAgreeWithReference) {
  for (const Shape& shape : norm_shapes)
    for (double p : {0.0, 0.3})
      for (NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
        const Input parameter{.shape = {shape.back()}, .master = true};
        const ContextOptions context{.seed = 5};
        // sum + normed, so that the gradient reaches the sum along both ways; and each alone.
        for (int which = 0; which < 3; ++which) {
          check_op(
              {.name = "add_norm " + shape.str(), .inputs = {{.shape = shape}, {.shape = shape}, parameter, parameter}, .context = context},
              [=](Context& ctx, const Tensors& in) {
            ctx.set_training(true);
            auto [sum, normed] = add_norm(ctx, in[0], in[1], {.kind = kind, .weight = in[2], .bias = in[3], .eps = 1e-3F},
                                          static_cast<float>(p));
            if (which == 0) return add_dropout(ctx, sum, normed, 0.0F);
            return which == 1 ? sum : normed;
              },
              [=](const auto& in) {
            auto sum = reference_sum(in[0], in[1], p, 5);
            if (which == 1) return sum;
            auto normed = reference_norm(sum, kind, 1e-3F, &in[2], &in[3]);
            if (which == 0)
              for (std::size_t i = 0; i < sum.values.size(); ++i) normed.values[i] += sum.values[i];
            return normed;
          });
        }
      }
}

TEST(AddNorm, AddDropoutAgreesWithReference) {
  for (const Shape& shape : norm_shapes)
    check_op(
        {.name = "add_dropout " + shape.str(), .inputs = {{.shape = shape}, {.shape = shape}}, .context = {.seed = 3}},
        [](Context& ctx, const Tensors& in) {
      ctx.set_training(true);
      return add_dropout(ctx, in[0], in[1], 0.5F);
        },
        [](const auto& in) { return reference_sum(in[0], in[1], 0.5, 3); });
}

TEST(AddNorm, DropsOnlyInTraining) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6}), sub = tensor(ctx, {2, 3}, {1, 1, 1, 1, 1, 1});
  expect_near(add_norm(ctx, x, sub, {}, 0.9F).sum, {2, 3, 4, 5, 6, 7}, 0.0);
  EXPECT_EQ(ctx.random().next().op, 0U);  // no random numbers taken
}

TEST(AddNorm, TheSameTensorOnBothSides) {
  check_op(
      {.name = "x + x", .inputs = {{.shape = {3, 5}}}},
      [](Context& ctx, const Tensors& in) { return add_norm(ctx, in[0], in[0], {}).normed; },
      [](const auto& in) {
    return reference_norm(reference_sum(in[0], in[0], 0.0, 0), NormKind::layer_norm, 1e-5F, decltype (&in[0])(nullptr),
                          decltype (&in[0])(nullptr));
      });
}

TEST(AddNorm, SameBitsWithAnyNumberOfThreads) {
  std::vector<Tensor> results[2];
  for (int run = 0; run < 2; ++run) {
    Context ctx({.threads = run == 0 ? 1 : 3, .seed = 9});
    ctx.set_training(true);
    std::vector<float> values, parameters(130, 0.5F);
    for (std::uint64_t i = 0; i < 700 * 130; ++i) values.push_back(RandomStream{1, 0, 0}.uniform(i));
    Tensor x = tensor(ctx, {700, 130}, values), sub = tensor(ctx, {700, 130}, values);
    Tensor weight = tensor(ctx, {130}, parameters), bias = tensor(ctx, {130}, parameters);
    for (Tensor* t : {&x, &sub, &weight, &bias}) require_grad(*t);
    auto [sum, normed] = add_norm(ctx, x, sub, {.kind = NormKind::layer_norm, .weight = weight, .bias = bias}, 0.1F);
    const Tensor y = add_dropout(ctx, sum, normed, 0.1F);
    backward(ctx, y, x.detach());
    results[run] = {y.detach(), gradient(x), gradient(sub), gradient(weight), gradient(bias)};
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(same_bits(results[0][i], results[1][i])) << i;
}

TEST(Norm, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 4}), w = Tensor::zeros(ctx, {3}), ids = Tensor::zeros(ctx, {2, 4}, DType::int64);
  expect_error([&] { layer_norm(ctx, {}, {}, {}); }, {"norm", "x is undefined"});
  expect_error([&] { layer_norm(ctx, ids, {}, {}); }, {"norm", "int64"});
  expect_error([&] { layer_norm(ctx, Tensor::zeros(ctx, {}), {}, {}); }, {"norm", "last dimension"});
  expect_error([&] { layer_norm(ctx, x, w, {}); }, {"norm", "weight [3]", "[2, 4]", "expected [4]"});
  expect_error([&] { layer_norm(ctx, x, {}, w); }, {"norm", "bias [3]"});
  expect_error([&] { rms_norm(ctx, x, Tensor::zeros(ctx, {4}, DType::bfloat16)); }, {"weight", "bfloat16", "float32"});
  expect_error([&] { rms_norm(ctx, x, {}, -1.0F); }, {"eps", "-1"});
  expect_error([&] { add_norm(ctx, x, {}, {}); }, {"add_norm", "sub is undefined"});
  expect_error([&] { add_norm(ctx, x, Tensor::zeros(ctx, {4, 2}), {}); }, {"add_norm", "[2, 4]", "[4, 2]"});
  expect_error([&] { add_norm(ctx, x, Tensor::zeros(ctx, {2, 4}, DType::bfloat16), {}); }, {"add_norm", "bfloat16"});
  expect_error([&] { add_norm(ctx, x, x, {}, 1.0F); }, {"dropout", "[0, 1)"});
  expect_error([&] { add_dropout(ctx, x, x, -0.1F); }, {"add_dropout", "-0.1"});
}

}  // namespace transformer::test
