#include "transformer/ops/elementwise.h"

#include <limits>

#include "backend/kernels.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

// f(a, b) over the shape both broadcast to.
template <class S, class F>
Array<S> broadcast(const Array<S>& a, const Array<S>& b, F&& f) {
  Array<S> y(Shape::broadcast("test", a.shape, b.shape));
  auto element = [&](const Array<S>& x, std::int64_t i) {
    std::int64_t at = 0, step = 1;
    for (int k = 1; k <= y.shape.rank(); i /= y.shape[-k], ++k) {
      if (k > x.shape.rank()) continue;
      if (x.shape[-k] != 1) at += i % y.shape[-k] * step;
      step *= x.shape[-k];
    }
    return x[at];
  };
  for (std::int64_t i = 0; i < y.shape.numel(); ++i) y[i] = f(element(a, i), element(b, i));
  return y;
}

const std::vector<std::pair<Shape, Shape>> pairs = {{{3, 17}, {3, 17}}, {{5, 65}, {65}}, {{65}, {5, 65}},     {{4, 3}, {1}},
                                                    {{}, {17}},         {{1}, {1}},      {{2, 1, 3}, {4, 1}}, {{2, 3, 1, 5}, {3, 4, 1}},
                                                    {{0, 3}, {3}}};

template <class Op, class F>
void check_binary(const char* name, Op op, F f, Input second = {.shape = {}}) {
  for (const auto& [a, b] : pairs) {
    Input other = second;
    other.shape = b;
    check_op(
        {.name = std::string(name) + " " + a.str() + " " + b.str(), .inputs = {{.shape = a}, other}},
        [&](Context& ctx, const Tensors& in) { return op(ctx, in[0], in[1]); }, [&](const auto& in) { return broadcast(in[0], in[1], f); });
  }
}

TEST(Elementwise, BinaryOpsBroadcast) {
  check_binary("add", add, [](const auto& a, const auto& b) { return a + b; });
  check_binary("sub", sub, [](const auto& a, const auto& b) { return a - b; });
  check_binary("mul", mul, [](const auto& a, const auto& b) { return a * b; });
  check_binary("div", div, [](const auto& a, const auto& b) { return a / b; }, {.shape = {}, .low = 0.5, .high = 2.0});
  check_binary("maximum", maximum, [](const auto& a, const auto& b) { return a < b ? b : a; });
  check_binary("minimum", minimum, [](const auto& a, const auto& b) { return a > b ? b : a; });
}

TEST(Elementwise, OneTensorOnBothSides) {
  check_op(
      {.name = "x·x - x", .inputs = {{.shape = {3, 5}}}},
      [](Context& ctx, const Tensors& in) { return sub(ctx, mul(ctx, in[0], in[0]), in[0]); },
      [](const auto& in) { return broadcast(in[0], in[0], [](const auto& a, const auto& b) { return a * b - a; }); });
}

TEST(Elementwise, TiesGoToTheFirstOperand) {
  Context ctx;
  for (auto* op : {maximum, minimum}) {
    Tensor a = tensor(ctx, {2}, {1, 2}), b = tensor(ctx, {2}, {1, 2});
    require_grad(a), require_grad(b);
    backward(ctx, op(ctx, a, b), tensor(ctx, {2}, {3, 4}));
    expect_near(gradient(a), {3, 4}, 0.0);
    expect_near(gradient(b), {0, 0}, 0.0);
  }
}

template <class Op, class F>
void check_unary(const char* name, Op op, F f, double low, double high, double away_from = NAN) {
  for (const Shape& shape : {Shape{3, 17}, Shape{65}, Shape{1}, Shape{}, Shape{0, 3}}) {
    check_op(
        {.name = std::string(name) + " " + shape.str(), .inputs = {{.shape = shape, .low = low, .high = high, .away_from = away_from}}},
        [&](Context& ctx, const Tensors& in) { return op(ctx, in[0]); },
        [&](const auto& in) {
      auto y = in[0];
      for (auto& v : y.values) v = f(v);
      return y;
        });
  }
}

TEST(Elementwise, UnaryOps) {
  using ::reference::abs, ::reference::cos, ::reference::exp, ::reference::log, ::reference::sin, ::reference::sqrt, ::reference::tanh;
  check_unary(
      "exp", [](Context& ctx, const Tensor& x) { return transformer::exp(ctx, x); }, [](const auto& v) { return exp(v); }, -3, 3);
  check_unary(
      "log", [](Context& ctx, const Tensor& x) { return transformer::log(ctx, x); }, [](const auto& v) { return log(v); }, 0.2, 3);
  check_unary(
      "sqrt", [](Context& ctx, const Tensor& x) { return transformer::sqrt(ctx, x); }, [](const auto& v) { return sqrt(v); }, 0.2, 3);
  check_unary(
      "tanh", [](Context& ctx, const Tensor& x) { return transformer::tanh(ctx, x); }, [](const auto& v) { return tanh(v); }, -3, 3);
  check_unary(
      "sin", [](Context& ctx, const Tensor& x) { return transformer::sin(ctx, x); }, [](const auto& v) { return sin(v); }, -9, 9);
  check_unary(
      "cos", [](Context& ctx, const Tensor& x) { return transformer::cos(ctx, x); }, [](const auto& v) { return cos(v); }, -9, 9);
  check_unary(
      "abs", [](Context& ctx, const Tensor& x) { return transformer::abs(ctx, x); }, [](const auto& v) { return abs(v); }, -1, 1, 0);
  check_unary(
      "rsqrt", rsqrt, [](const auto& v) { return 1.0 / sqrt(v); }, 0.2, 3);
  check_unary(
      "sigmoid", sigmoid, [](const auto& v) { return 1.0 / (1.0 + exp(-v)); }, -5, 5);
  check_unary(
      "square", square, [](const auto& v) { return v * v; }, -2, 2);
  check_unary(
      "neg", neg, [](const auto& v) { return -v; }, -2, 2);
  check_unary(
      "scale", [](Context& ctx, const Tensor& x) { return scale(ctx, x, 1.5F); }, [](const auto& v) { return v * 1.5; }, -2, 2);
}

TEST(Elementwise, ColumnBlocksAndHalfPrecision) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near(square(ctx, x.column_block(1, 2)), {4, 9, 36, 49}, 1e-6);
  expect_near(add(ctx, x.column_block(0, 2), x.column_block(2, 2)), {4, 6, 12, 14}, 1e-6);
  Tensor half = Tensor::empty(ctx, {2, 4}, DType::float16);
  kernels(ctx).copy(ctx, x, half);
  expect_near(mul(ctx, half, half), {1, 4, 9, 16, 25, 36, 49, 64}, 1e-6);
  expect_near(transformer::sqrt(ctx, half), {1, 1.41421, 1.73205, 2, 2.23607, 2.44949, 2.64575, 2.82843}, 2e-3);
}

TEST(Elementwise, ExpAndLogAreAccurateAndKeepSpecialValues) {
  Context ctx;
  std::vector<float> values;
  for (int i = -86000; i <= 88000; i += 7) values.push_back(static_cast<float>(i) * 1e-3F);
  const auto n = static_cast<std::int64_t>(values.size());
  const std::vector<float> e = transformer::exp(ctx, tensor(ctx, {n}, values)).to_vector<float>();
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(e[i] / std::exp(static_cast<double>(values[i])) - 1.0));
  EXPECT_LT(worst, 1.5e-7);

  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> exps = transformer::exp(ctx, tensor(ctx, {5}, {inf, 1e4F, -1e4F, -inf, nan})).to_vector<float>();
  EXPECT_EQ(std::vector<float>(exps.begin(), exps.end() - 1), (std::vector<float>{inf, inf, 0, 0}));
  EXPECT_TRUE(std::isnan(exps[4]));
  const std::vector<float> logs = transformer::log(ctx, tensor(ctx, {6}, {0, inf, 1, -1, nan, 1e-40F})).to_vector<float>();
  EXPECT_EQ(std::vector<float>(logs.begin(), logs.begin() + 3), (std::vector<float>{-inf, inf, 0}));
  EXPECT_TRUE(std::isnan(logs[3]) && std::isnan(logs[4]));
  EXPECT_NEAR(logs[5], std::log(1e-40), 1e-4);
  const std::vector<float> larger = maximum(ctx, tensor(ctx, {2}, {nan, 1}), tensor(ctx, {2}, {1, nan})).to_vector<float>();
  EXPECT_TRUE(std::isnan(larger[0]) && std::isnan(larger[1]));
}

TEST(Elementwise, SineOfLargeAngles) {
  Context ctx;
  const std::vector<float> angles = {1e3F, -3e4F, 5e4F, 1e7F, -2.5e9F};
  const std::vector<float> s = transformer::sin(ctx, tensor(ctx, {5}, angles)).to_vector<float>();
  const std::vector<float> c = transformer::cos(ctx, tensor(ctx, {5}, angles)).to_vector<float>();
  for (std::size_t i = 0; i < angles.size(); ++i) {
    EXPECT_NEAR(s[i], std::sin(static_cast<double>(angles[i])), 1e-6) << angles[i];
    EXPECT_NEAR(c[i], std::cos(static_cast<double>(angles[i])), 1e-6) << angles[i];
  }
}

TEST(Elementwise, LargeTensorsAreSplitOverThreads) {
  const std::int64_t rows = 37, cols = 4099;
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    Tensor x = Tensor::empty(ctx, {rows, cols}), b = Tensor::empty(ctx, {cols});
    kernels(ctx).uniform(ctx, {1, 2, 3}, -1.0F, 1.0F, x);
    kernels(ctx).uniform(ctx, {4, 5, 6}, -1.0F, 1.0F, b);
    results.push_back(mul(ctx, sigmoid(ctx, x), b).to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor a = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6}), b = tensor(ctx, {2}, {1, 2});
  expect_error([&] { add(ctx, a, b); }, {"add", "[2, 3]", "[2]"});
  expect_error([&] { mul(ctx, a, Tensor()); }, {"mul", "undefined"});
  expect_error([&] { div(ctx, a, Tensor::zeros(ctx, {3}, DType::bfloat16)); }, {"div", "float32", "bfloat16"});
  expect_error([&] { transformer::exp(ctx, Tensor::zeros(ctx, {3}, DType::int64)); }, {"exp", "int64"});
  expect_error([&] { scale(ctx, Tensor(), 2.0F); }, {"scale", "undefined"});
}

}  // namespace
}  // namespace transformer::test
