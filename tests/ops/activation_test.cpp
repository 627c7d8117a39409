#include "transformer/ops/activation.h"

#include "support/op_check.h"

namespace transformer::test {
namespace {

using ::reference::erf, ::reference::exp, ::reference::tanh;

template <class S>
S activation_of(Activation kind, const S& x) {
  switch (kind) {
    case Activation::relu: return x > S(0.0) ? x : S(0.0) * x;
    case Activation::gelu: return 0.5 * x * (1.0 + erf(x * std::sqrt(0.5)));
    case Activation::gelu_tanh: return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1.0 + exp(-x));
    default: return x;
  }
}

constexpr Activation kinds[] = {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

TEST(Activation, ValuesAndGradients) {
  for (Activation kind : kinds) {
    for (const Shape& shape : {Shape{3, 17}, Shape{2, 1, 65}, Shape{1}, Shape{0, 3}}) {
      check_op(
          {.name = "activation " + std::to_string(static_cast<int>(kind)) + " " + shape.str(),
           .inputs = {{.shape = shape, .low = -4, .high = 4, .away_from = 0}}},
          [&](Context& ctx, const Tensors& in) { return activate(ctx, kind, in[0]); },
          [&](const auto& in) {
        auto y = in[0];
        for (auto& v : y.values) v = activation_of(kind, v);
        return y;
          });
    }
  }
}

TEST(Activation, Gated) {
  for (Activation kind : kinds) {
    for (const Shape& shape : {Shape{3, 34}, Shape{2, 3, 2}, Shape{130}, Shape{0, 4}, Shape{3, 0}}) {
      check_op(
          {.name = "gated " + std::to_string(static_cast<int>(kind)) + " " + shape.str(),
           .inputs = {{.shape = shape, .low = -2, .high = 2, .away_from = 0}}},
          [&](Context& ctx, const Tensors& in) { return gated(ctx, kind, in[0]); },
          [&](const auto& in) {
        const std::int64_t h = shape.back() / 2;
        auto y = in[0];
        y.shape = shape.with_back(h);
        y.values.resize(static_cast<std::size_t>(y.shape.numel()));
        for (std::int64_t i = 0; i < y.shape.numel(); ++i) y[i] = activation_of(kind, in[0].at(i / h, i % h)) * in[0].at(i / h, h + i % h);
        return y;
          });
    }
  }
}

TEST(Activation, ExactEverywhere) {
  Context ctx;
  std::vector<float> values;
  for (int i = -12000; i <= 12000; ++i) values.push_back(static_cast<float>(i) * 1e-3F);
  const auto n = static_cast<std::int64_t>(values.size());
  for (Activation kind : kinds) {
    Tensor x = tensor(ctx, {n}, values);
    require_grad(x);
    const Tensor y = activate(ctx, kind, x);
    const std::vector<float> got = y.to_vector<float>();
    backward(ctx, y, Tensor::full(ctx, {n}, 1.0F));
    const std::vector<float> slope = gradient(x).to_vector<float>();
    double value_error = 0.0, slope_error = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ::reference::Var::clear();
      const auto v = ::reference::Var::variable(values[i]);
      const auto want = activation_of(kind, v);
      ::reference::Var::backward(want);
      value_error = std::max(value_error, std::abs(got[i] - want.value()) / std::max(1.0, std::abs(want.value())));
      slope_error = std::max(slope_error, std::abs(slope[i] - v.gradient()));
    }
    EXPECT_LT(value_error, 1e-6) << static_cast<int>(kind);
    EXPECT_LT(slope_error, 1e-6) << static_cast<int>(kind);
  }
}

TEST(Activation, ExtremesStayFinite) {
  Context ctx;
  for (Activation kind : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    Tensor x = tensor(ctx, {4}, {-1e4F, -100.0F, 100.0F, 1e4F});
    require_grad(x);
    const Tensor y = activate(ctx, kind, x);
    expect_near(y, {0, 0, 100, 1e4}, 1e-6);
    backward(ctx, y, Tensor::full(ctx, {4}, 1.0F));
    expect_near(gradient(x), {0, 0, 1, 1}, 1e-6);
  }
  Tensor zero = tensor(ctx, {1}, {0});
  require_grad(zero);
  backward(ctx, relu(ctx, zero), tensor(ctx, {1}, {1}));
  expect_near(gradient(zero), {0}, 0.0);
}

TEST(Activation, RefusesWhatDoesNotFit) {
  Context ctx;
  expect_error([&] { gated(ctx, Activation::silu, Tensor::zeros(ctx, {2, 5})); }, {"gated", "[2, 5]", "even"});
  expect_error([&] { gelu(ctx, Tensor()); }, {"gelu", "undefined"});
  expect_error([&] { activate(ctx, Activation::none, Tensor()); }, {"activate", "undefined"});
  expect_error([&] { relu(ctx, Tensor::zeros(ctx, {2}, DType::int32)); }, {"relu", "int32"});
}

}  // namespace
}  // namespace transformer::test
