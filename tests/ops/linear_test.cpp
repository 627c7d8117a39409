#include "transformer/ops/linear.h"

#include "support/op_check.h"
#include "transformer/ops/random.h"

namespace transformer::test {
namespace {

template <class S>
S activated(Activation a, const S& x) {
  using reference::erf, reference::exp, reference::tanh;
  switch (a) {
    case Activation::none: return x;
    case Activation::relu: return x > S(0.0) ? x : S(0.0);
    case Activation::gelu: return x * S(0.5) * (S(1.0) + erf(x / S(std::sqrt(2.0))));
    case Activation::gelu_tanh: return x * S(0.5) * (S(1.0) + tanh(S(std::sqrt(2.0 / M_PI)) * (x + S(0.044715) * x * x * x)));
    case Activation::silu: return x / (S(1.0) + exp(-x));
  }
  return x;
}

// Rows of in[0] times the rows of in[1], plus in[2].
template <class S>
Array<S> plain_linear(const Arrays<S>& in, Activation activation) {
  Array<S> y(in[0].shape.with_back(in[1].dim(0)));
  const std::int64_t rows = in[0].shape.numel() / in[0].dim(-1);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < in[1].dim(0); ++o) {
      S sum = in.size() > 2 ? in[2][o] : S(0.0);
      for (std::int64_t i = 0; i < in[1].dim(1); ++i) sum += in[0].at(r, i) * in[1].at(o, i);
      y.at(r, o) = activated(activation, sum);
    }
  return y;
}

}  // namespace

TEST(Linear, MatchesReferenceOverOddSizes) {
  for (auto [rows, in, out] : {std::tuple{1, 1, 1}, {1, 17, 3}, {3, 1, 17}, {17, 65, 3}, {65, 3, 17}, {2, 64, 65}}) {
    check_op(
        {.name = fmt::format("linear {}x{}→{}", rows, in, out),
         .inputs = {{.shape = {rows, in}}, {.shape = {out, in}, .master = true}, {.shape = {out}, .master = true}}},
        [](Context& ctx, const Tensors& t) { return linear(ctx, t[0], t[1], t[2]); },
        [](const auto& t) { return plain_linear(t, Activation::none); });
  }
}

TEST(Linear, FusesEveryActivation) {
  for (Activation a : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    check_op(
        {.name = fmt::format("activation {}", static_cast<int>(a)),
         .inputs = {{.shape = {5, 17}}, {.shape = {9, 17}, .master = true}, {.shape = {9}, .master = true}},
         .differences = a != Activation::relu},
        [a](Context& ctx, const Tensors& t) { return linear(ctx, t[0], t[1], t[2], a); },
        [a](const auto& t) { return plain_linear(t, a); });
    // Without gradients the activation is fused into the product; the values are the same.
    Context ctx;
    const Tensor x = Tensor::full(ctx, {2, 4}, 0.3F), w = Tensor::full(ctx, {3, 4}, -0.4F);
    Tensor tracked = w;
    require_grad(tracked);
    expect_near(linear(ctx, x, w, {}, a), detail::to_double(linear(ctx, x, tracked, {}, a)), 1e-6);
  }
}

// With dropout the op is the activation times the mask of its stream; the reference draws the same mask.
TEST(Linear, FusesDropoutAfterTheActivation) {
  const float p = 0.3F;
  for (Activation a : {Activation::none, Activation::relu, Activation::gelu}) {
    check_op(
        {.name = fmt::format("activation {} with dropout", static_cast<int>(a)),
         .inputs = {{.shape = {7, 17}}, {.shape = {11, 17}, .master = true}, {.shape = {11}, .master = true}},
         .differences = a != Activation::relu,
         .context = {.seed = 5}},
        [=](Context& ctx, const Tensors& t) {
      ctx.set_training(true);
      return linear(ctx, t[0], t[1], t[2], a, p);
        },
        [=](const auto& t) {
      auto y = plain_linear(t, a);
      const RandomStream mask{5, 0, 0};
      for (std::int64_t i = 0; i < y.shape.numel(); ++i) {
        const bool dropped = mask.bits(static_cast<std::uint64_t>(i)) < static_cast<std::uint32_t>(static_cast<double>(p) * 0x1p32);
        y[i] = y[i] * (dropped ? 0.0 : 1.0 / (1.0 - static_cast<double>(p)));
      }
      return y;
    });
  }
}

TEST(Linear, TakesAnyNumberOfLeadingDimensionsAndNoBias) {
  check_op(
      {.name = "linear 3d", .inputs = {{.shape = {2, 3, 7}}, {.shape = {5, 7}}}},
      [](Context& ctx, const Tensors& t) { return linear(ctx, t[0], t[1]); },
      [](const auto& t) { return plain_linear(t, Activation::none); });
}

TEST(Linear, TheInputMayBeTheWeight) {
  check_op(
      {.name = "x · xᵀ", .inputs = {{.shape = {6, 5}}}}, [](Context& ctx, const Tensors& t) { return linear(ctx, t[0], t[0]); },
      [](const auto& t) {
    return plain_linear(std::vector{t[0], t[0]}, Activation::none);
      });
}

TEST(Linear, EmptyBatchGivesZeroGradients) {
  Context ctx;
  Tensor x = Tensor::empty(ctx, {0, 4}), w = Tensor::full(ctx, {3, 4}, 1.0F), b = Tensor::full(ctx, {3}, 1.0F);
  require_grad(w);
  require_grad(b);
  const Tensor y = linear(ctx, x, w, b);
  EXPECT_EQ(y.shape().str(), "[0, 3]");
  backward(ctx, y, Tensor::empty(ctx, {0, 3}));
  expect_near(gradient(w), std::vector<double>(12, 0.0), 0.0);
  expect_near(gradient(b), std::vector<double>(3, 0.0), 0.0);
}

TEST(Linear, AccumulatesOverSeveralUses) {
  Context ctx;
  Tensor w = tensor(ctx, {1, 2}, {1, 2});
  require_grad(w);
  const Tensor x = tensor(ctx, {1, 2}, {3, 4});
  for (int pass = 1; pass <= 2; ++pass) {
    backward(ctx, linear(ctx, x, w));
    expect_near(gradient(w), {3.0 * pass, 4.0 * pass}, 0.0);
  }
}

TEST(Linear, SaysWhatDoesNotFit) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 5}), w = Tensor::zeros(ctx, {3, 4});
  expect_error([&] { linear(ctx, x, w); }, {"linear", "[2, 5]", "[3, 4]", "[..., 4]"});
  expect_error([&] { linear(ctx, Tensor::zeros(ctx, {2, 4}), w, Tensor::zeros(ctx, {4})); }, {"linear", "bias", "[4]", "[3]"});
  expect_error([&] { linear(ctx, Tensor::zeros(ctx, {2, 4}, DType::int64), w); }, {"linear", "int64"});
  expect_error([&] { linear(ctx, {}, w); }, {"linear", "x", "undefined"});
  expect_error(
      [&] {
    linear(ctx, Tensor::wrap(nullptr, {0, 4}, DType::float32, Device::cuda(1)), w);
      },
      {"linear", "cuda:1", ctx.device().str()});
}

TEST(AddLinear, ChangesTheColumnsOfOnePart) {
  for (auto [rows, in, out, column, width] : {std::tuple{1, 1, 1, 0, 1}, {5, 3, 4, 0, 4}, {17, 2, 6, 5, 18}, {3, 8, 65, 0, 70}}) {
    check_op(
        {.name = fmt::format("add_linear {}x{} to {}…{} of {}", rows, in, column, column + out, width),
         .inputs = {{.shape = {rows, width}}, {.shape = {rows, in}}, {.shape = {out, in}, .master = true}}},
        [column = column](Context& ctx, const Tensors& t) { return add_linear(ctx, t[0], t[1], t[2], 0.5F, column); },
        [column = column](const auto& t) {
      auto y = t[0];
      for (std::int64_t r = 0; r < y.shape.numel() / y.dim(-1); ++r)
        for (std::int64_t o = 0; o < t[2].dim(0); ++o)
          for (std::int64_t i = 0; i < t[2].dim(1); ++i) y.at(r, column + o) += t[1].at(r, i) * t[2].at(o, i) * 0.5;
      return y;
        });
  }
}

TEST(AddLinear, SaysWhatDoesNotFit) {
  Context ctx;
  const Tensor y = Tensor::zeros(ctx, {2, 6}), x = Tensor::zeros(ctx, {2, 4}), w = Tensor::zeros(ctx, {3, 4});
  expect_error([&] { add_linear(ctx, y, x, w, 1.0F, 4); }, {"add_linear", "4…7", "[2, 6]"});
  expect_error([&] { add_linear(ctx, Tensor::zeros(ctx, {3, 6}), x, w); }, {"add_linear", "[3, 6]", "[2, 4]"});
}

TEST(Matmul, WorkedProduct) {
  Context ctx;
  expect_near(matmul(ctx, tensor(ctx, {2, 2}, {1, 2, 3, 4}), tensor(ctx, {2, 2}, {5, 6, 7, 8})), {19, 22, 43, 50}, 0.0);
  expect_near(matmul(ctx, tensor(ctx, {1, 3}, {1, 2, 3}), tensor(ctx, {3, 1}, {4, 5, 6})), {32}, 0.0);  // a dot product
}

TEST(Matmul, EveryTransposeAndBatch) {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (std::int64_t batch : {1, 3})
        for (bool shared : {false, true}) {
          const std::int64_t m = 5, k = 17, n = 3;
          const Shape a = ta ? Shape{batch, k, m} : Shape{batch, m, k};
          const Shape b = shared ? (tb ? Shape{n, k} : Shape{k, n}) : (tb ? Shape{batch, n, k} : Shape{batch, k, n});
          check_op(
              {.name = fmt::format("matmul {}{} batch {} shared {}", ta, tb, batch, shared), .inputs = {{.shape = a}, {.shape = b}}},
              [=](Context& ctx, const Tensors& t) { return matmul(ctx, t[0], t[1], ta, tb); },
              [=](const auto& t) {
            auto y = std::decay_t<decltype(t[0])>(Shape{batch, m, n});
            for (std::int64_t s = 0; s < batch; ++s)
              for (std::int64_t i = 0; i < m; ++i)
                for (std::int64_t j = 0; j < n; ++j)
                  for (std::int64_t l = 0; l < k; ++l)
                    y[(s * m + i) * n + j] += t[0][s * m * k + (ta ? l * m + i : i * k + l)] *
                        t[1][(shared ? 0 : s * k * n) + (tb ? j * k + l : l * n + j)];
            return y;
              });
        }
}

// Large products are cut among the threads in several ways: tall and wide ones with a transposed left side, deep ones.
TEST(Matmul, LargeOddProductsOnAnyNumberOfThreads) {
  struct Case {
    std::int64_t m, n, k;
    bool transpose_a;
  };
  for (const Case& c : {Case{1031, 131, 301, true}, {131, 1031, 301, true}, {51, 73, 11003, false}, {515, 513, 129, false}})
    for (int threads : {1, 2, 3}) {
      Context ctx({.threads = threads});
      const Tensor a = random_uniform(ctx, c.transpose_a ? Shape{c.k, c.m} : Shape{c.m, c.k}, -1.0F);
      const Tensor b = random_uniform(ctx, {c.k, c.n}, -1.0F), y = matmul(ctx, a, b, c.transpose_a);
      const Tensor a_here = a.to_host(), b_here = b.to_host(), y_here = y.to_host();
      const float *x = a_here.data<float>(), *w = b_here.data<float>(), *got = y_here.data<float>();
      // Every row at one column and every column at one row, so that no cut is missed.
      auto check = [&](std::int64_t i, std::int64_t j) {
        double sum = 0.0;
        for (std::int64_t l = 0; l < c.k; ++l)
          sum += static_cast<double>(x[c.transpose_a ? l * c.m + i : i * c.k + l]) * static_cast<double>(w[l * c.n + j]);
        ASSERT_NEAR(got[i * c.n + j], sum, 2e-5 * std::sqrt(static_cast<double>(c.k))) << i << ", " << j << " of " << c.m << " x " << c.n;
      };
      for (std::int64_t i = 0; i < c.m; ++i) check(i, (i * 7) % c.n);
      for (std::int64_t j = 0; j < c.n; ++j) check((j * 5) % c.m, j);
    }
}

TEST(Matmul, SaysWhatDoesNotFit) {
  Context ctx;
  expect_error([&] { matmul(ctx, Tensor::zeros(ctx, {2, 3}), Tensor::zeros(ctx, {4, 5})); }, {"matmul", "[2, 3]", "[4, 5]", "3 and 4"});
  expect_error([&] { matmul(ctx, Tensor::zeros(ctx, {2, 2, 3}), Tensor::zeros(ctx, {3, 3, 5})); }, {"matmul", "broadcast"});
  expect_error([&] { matmul(ctx, Tensor::zeros(ctx, {2, 3}), Tensor::zeros(ctx, {3, 2}, DType::bfloat16)); }, {"matmul", "bfloat16"});
}

}  // namespace transformer::test
