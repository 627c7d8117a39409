#include "transformer/ops/softmax.h"

#include "support/op_check.h"

namespace transformer::test {
namespace {

constexpr float inf = INFINITY;

template <class S>
Array<S> reference_softmax(const Array<S>& x, bool log_of) {
  using ::reference::exp, ::reference::log, ::reference::value_of;
  Array<S> y(x.shape);
  const std::int64_t n = x.shape.back(), rows = n == 0 ? 0 : x.shape.numel() / n;
  for (std::int64_t r = 0; r < rows; ++r) {
    double top = -1e300;
    for (std::int64_t i = 0; i < n; ++i) top = std::max(top, value_of(x.at(r, i)));
    S sum(0.0);
    for (std::int64_t i = 0; i < n; ++i) sum += exp(x.at(r, i) - S(top));
    for (std::int64_t i = 0; i < n; ++i) y.at(r, i) = log_of ? x.at(r, i) - S(top) - log(sum) : exp(x.at(r, i) - S(top)) / sum;
  }
  return y;
}

}  // namespace

TEST(Softmax, AgreesWithReference) {
  for (const Shape& shape : std::vector<Shape>{{1, 1}, {3, 1}, {3, 3}, {4, 17}, {2, 3, 65}, {2, 1000}, {0, 5}, {7}})
    for (bool log : {false, true})
      check_op(
          {.name = (log ? "log_softmax " : "softmax ") + shape.str(),
           .inputs = {{.shape = shape, .low = -4.0, .high = 4.0}},
           .bfloat16_tolerance = 2e-2},  // the gradient is a difference of rounded outputs
          [=](Context& ctx, const Tensors& in) { return log ? log_softmax(ctx, in[0]) : softmax(ctx, in[0]); },
          [=](const auto& in) { return reference_softmax(in[0], log); });
}

TEST(Softmax, StaysFiniteForLargeValues) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3}, {1e30F, 1e30F, -1e30F, -500, -501, -1000});
  expect_near(softmax(ctx, x), {0.5, 0.5, 0, 0.7310585786, 0.2689414214, 0}, 1e-6);
  expect_near(log_softmax(ctx, tensor(ctx, {1, 2}, {-500, -501})), {-0.3132616875, -1.3132616875}, 1e-4);
}

TEST(Softmax, MasksWithMinusInfinity) {
  Context ctx;
  Tensor x = tensor(ctx, {3, 2}, {-inf, -inf, 0, -inf, 1, 1});
  expect_near(softmax(ctx, x), {0, 0, 1, 0, 0.5, 0.5}, 1e-6);
  const std::vector<float> log = log_softmax(ctx, x).to_vector<float>();
  EXPECT_EQ(log, (std::vector<float>{-inf, -inf, 0, -inf, log[4], log[5]}));
  require_grad(x);
  backward(ctx, softmax(ctx, x), tensor(ctx, {3, 2}, {1, 2, 3, 4, 5, 7}));
  expect_near(gradient(x), {0, 0, 0, 0, -0.5, 0.5}, 1e-6);
}

TEST(Softmax, KeepsNaN) {
  Context ctx;
  for (float bad : {static_cast<float>(NAN), inf})
    for (float v : softmax(ctx, tensor(ctx, {1, 3}, {-inf, bad, 1})).to_vector<float>()) EXPECT_TRUE(std::isnan(v));
}

TEST(Softmax, FollowsRowStrides) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3}, {9, 1, 1, 9, 2, 2});
  expect_near(softmax(ctx, x.column_block(1, 2)), {0.5, 0.5, 0.5, 0.5}, 1e-6);
}

TEST(Softmax, RefusesWhatDoesNotFit) {
  Context ctx;
  expect_error([&] { softmax(ctx, {}); }, {"softmax", "undefined"});
  expect_error([&] { log_softmax(ctx, Tensor::zeros(ctx, {2}, DType::int32)); }, {"log_softmax", "int32"});
}

}  // namespace transformer::test
