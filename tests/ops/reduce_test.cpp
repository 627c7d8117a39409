#include "transformer/ops/reduce.h"

#include "backend/kernels.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

// Reduces x along the axes whose bit is set in `mask`.
template <class S>
Array<S> reduced(const Array<S>& x, unsigned mask, bool keep, Reduction kind) {
  std::vector<std::int64_t> shape;
  double count = 1.0;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool gone = (mask >> i & 1U) != 0;
    if (gone) count *= static_cast<double>(x.dim(i));
    if (keep || !gone) shape.push_back(gone ? 1 : x.dim(i));
  }
  Array<S> y((Shape(shape)));
  std::vector<bool> seen(y.values.size());
  for (std::int64_t e = 0; e < x.shape.numel(); ++e) {
    std::int64_t at = 0, step = 1, rest = e;
    for (int i = x.shape.rank() - 1; i >= 0; rest /= x.dim(i), --i) {
      if ((mask >> i & 1U) != 0) continue;
      at += rest % x.dim(i) * step;
      step *= x.dim(i);
    }
    const auto k = static_cast<std::size_t>(at);
    if (kind == Reduction::max) {
      if (!seen[k] || x[e] > y[at]) y[at] = x[e];
    } else {
      y[at] += x[e] * S(kind == Reduction::mean ? 1.0 / count : 1.0);
    }
    seen[k] = true;
  }
  return y;
}

TEST(Reduce, EverySetOfAxes) {
  for (const Shape& shape : {Shape{3, 5, 17}, Shape{2, 65, 1, 3}, Shape{1}}) {
    for (unsigned mask = 1; mask < 1U << shape.rank(); ++mask) {
      std::vector<int> axes;
      for (int i = 0; i < shape.rank(); ++i)
        if ((mask >> i & 1U) != 0) axes.push_back(i % 2 == 0 ? i : i - shape.rank());
      for (bool keep : {false, true}) {
        for (Reduction kind : {Reduction::sum, Reduction::mean, Reduction::max}) {
          auto* op = kind == Reduction::sum ? sum : kind == Reduction::mean ? mean : max;
          check_op(
              {.name = shape.str() + " axes " + std::to_string(mask) + " kind " + std::to_string(static_cast<int>(kind)),
               .inputs = {{.shape = shape}},
               .bfloat16_tolerance = kind == Reduction::max ? 0.0 : 1e-2,
               .differences = keep},
              [&](Context& ctx, const Tensors& in) { return op(ctx, in[0], axes, keep); },
              [&](const auto& in) { return reduced(in[0], mask, keep, kind); });
        }
      }
    }
  }
}

TEST(Reduce, AllAxesWhenNoneIsGiven) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 9});
  EXPECT_EQ(sum(ctx, x).shape().str(), "[]");
  EXPECT_EQ(mean(ctx, x, {}, true).shape().str(), "[1, 1]");
  EXPECT_FLOAT_EQ(sum(ctx, x).item(), 24.0F);
  EXPECT_FLOAT_EQ(mean(ctx, x).item(), 4.0F);
  EXPECT_FLOAT_EQ(max(ctx, x).item(), 9.0F);
  expect_near(sum(ctx, x.column_block(1, 2), {0}), {7, 12}, 0.0);
}

TEST(Reduce, FirstMaximumTakesTheGradient) {
  for (DType dtype : {DType::float32, DType::bfloat16}) {
    Context ctx;
    Tensor x = Tensor::empty(ctx, {2, 4}, dtype);
    kernels(ctx).copy(ctx, tensor(ctx, {2, 4}, {1, 3, 3, 2, 5, 5, 5, 5}), x);
    require_grad(x);
    backward(ctx, max(ctx, x, {1}), Tensor::full(ctx, {2}, 2.0F));
    expect_near(gradient(x), {0, 2, 0, 0, 2, 0, 0, 0}, 0.0);
  }
}

TEST(Reduce, EmptyTensors) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {0, 3});
  expect_near(sum(ctx, x, {0}), {0, 0, 0}, 0.0);
  EXPECT_EQ(sum(ctx, x, {1}).numel(), 0);
  EXPECT_EQ(max(ctx, x, {1}).numel(), 0);
  EXPECT_TRUE(std::isnan(mean(ctx, x).item()));
  expect_error([&] { max(ctx, x, {0}); }, {"max", "[0, 3]", "empty"});
}

TEST(Reduce, LargeSumsKeepTheirPrecisionForAnyNumberOfThreads) {
  const std::int64_t rows = 3001, cols = 131;
  std::vector<std::vector<float>> all, by_column, by_row;
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    const Tensor x = Tensor::full(ctx, {rows, cols}, 0.1F);
    all.push_back(sum(ctx, x).to_vector<float>());
    by_column.push_back(sum(ctx, x, {0}).to_vector<float>());
    by_row.push_back(sum(ctx, x, {1}).to_vector<float>());
  }
  const double unit = 0.1F;
  EXPECT_NEAR(all[0][0] / (unit * rows * cols), 1.0, 1e-6);
  for (float v : by_column[0]) EXPECT_NEAR(v / (unit * rows), 1.0, 1e-6);
  for (float v : by_row[0]) EXPECT_NEAR(v / (unit * cols), 1.0, 1e-6);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(all[0], all[i]);
    EXPECT_EQ(by_column[0], by_column[i]);
    EXPECT_EQ(by_row[0], by_row[i]);
  }
}

TEST(Reduce, SumRowsFollowsStridesAndAccumulates) {
  Context ctx;
  for (std::int64_t rows : {0, 1, 2, 7, 65, 200}) {
    Tensor x = Tensor::empty(ctx, {rows, 40});
    kernels(ctx).uniform(ctx, {7, 0, 0}, -1.0F, 1.0F, x);
    for (std::int64_t cols : {1, 3, 33}) {
      const Tensor block = x.column_block(5, cols);
      const std::vector<float> values = block.to_vector<float>();
      std::vector<double> want(static_cast<std::size_t>(cols), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) want[i % static_cast<std::size_t>(cols)] += values[i];
      Tensor y = Tensor::full(ctx, {cols}, 9.0F);
      kernels(ctx).sum_rows(ctx, block, y, false);
      expect_near(y, want, 1e-5);
      kernels(ctx).sum_rows(ctx, block, y, true);
      for (double& w : want) w *= 2.0;
      expect_near(y, want, 2e-5);
    }
  }
}

TEST(Reduce, MaximumOfMasksAndNotANumber) {
  Context ctx;
  const Tensor x = tensor(ctx, {3, 3}, {-INFINITY, -INFINITY, -INFINITY, 1, NAN, 3, -5, -4, -6});
  const std::vector<float> y = max(ctx, x, {1}).to_vector<float>();
  EXPECT_EQ(y[0], -INFINITY);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], -4.0F);
}

TEST(Reduce, RefusesBadAxes) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 3});
  expect_error([&] { sum(ctx, x, {2}); }, {"sum", "axis 2", "[2, 3]"});
  expect_error([&] { mean(ctx, x, {1, -1}); }, {"mean", "twice"});
  expect_error([&] { max(ctx, Tensor()); }, {"max", "undefined"});
  expect_error([&] { sum(ctx, Tensor::zeros(ctx, {2}, DType::int64)); }, {"sum", "int64"});
}

}  // namespace
}  // namespace transformer::test
