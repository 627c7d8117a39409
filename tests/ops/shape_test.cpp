#include "transformer/ops/shape.h"

#include "backend/kernels.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

TEST(Memory, FillsAndConverts) {
  Context ctx;
  for (DType from : {DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::int64, DType::uint8, DType::int8}) {
    for (DType to : {DType::float32, DType::bfloat16, DType::float16, DType::int32, DType::int64, DType::uint8, DType::int8}) {
      Tensor x = Tensor::full(ctx, {3, 17}, 5.0F, from), y = Tensor::empty(ctx, {3, 17}, to), back = Tensor::empty(ctx, {3, 17});
      kernels(ctx).copy(ctx, x, y);
      kernels(ctx).copy(ctx, y, back);
      EXPECT_EQ(back.to_vector<float>(), std::vector<float>(51, 5.0F)) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(Memory, FloatsBecomeIntegersWithinBounds) {
  Context ctx;
  const Tensor x = tensor(ctx, {6}, {1.9F, -1.9F, 1e20F, -1e20F, NAN, 300.0F});
  Tensor i = Tensor::empty(ctx, {6}, DType::int32), u = Tensor::empty(ctx, {6}, DType::uint8);
  kernels(ctx).copy(ctx, x, i);
  kernels(ctx).copy(ctx, x, u);
  EXPECT_EQ(i.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1, INT32_MAX, INT32_MIN, 0, 300}));
  EXPECT_EQ(u.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 0, 255, 0, 0, 255}));
}

TEST(Memory, FollowsRowStrides) {
  Context ctx;
  Tensor x = Tensor::zeros(ctx, {3, 5});
  Tensor middle = x.column_block(1, 3);
  kernels(ctx).fill(ctx, 2.0F, middle);
  kernels(ctx).add_to(ctx, Tensor::full(ctx, {3, 3}, 1.0F, DType::bfloat16), middle);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 3, 3, 3, 0, 0, 3, 3, 3, 0, 0, 3, 3, 3, 0}));
  Tensor y = Tensor::empty(ctx, {3, 3}, DType::float16);
  kernels(ctx).copy(ctx, middle, y);
  expect_near(y, std::vector<double>(9, 3.0), 0.0);
}

TEST(Memory, StridedCopySumsWhereTheTargetStandsStill) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor y = tensor(ctx, {3}, {10, 20, 30});
  kernels(ctx).strided_copy(ctx, {2, 3}, x, 0, {3, 1}, y, 0, {0, 1}, true);
  expect_near(y, {15, 27, 39}, 0.0);
}

// Every element of y is an element of x: index(i) says which, for the flat index i of y.
template <class S, class F>
Array<S> picked(const Array<S>& x, const Shape& shape, F&& index) {
  Array<S> y(shape);
  for (std::int64_t i = 0; i < shape.numel(); ++i) y[i] = x[index(i)];
  return y;
}

TEST(Shape, Reshape) {
  for (const auto& [from, to] : std::vector<std::pair<Shape, Shape>>{
           {{3, 4}, {2, 6}}, {{3, 4}, {-1}}, {{2, 3, 5}, {6, -1}}, {{1}, {}}, {{0, 3}, {3, 0}}, {{0, 3}, {-1, 3}}}) {
    check_op(
        {.name = "reshape " + from.str() + " " + to.str(), .inputs = {{.shape = from}}},
        [&](Context& ctx, const Tensors& in) {
      Tensor y = reshape(ctx, in[0], to);
      EXPECT_EQ(y.raw(), in[0].raw());
      return y;
        },
        [&](const auto& in) {
      Shape shape = to;
      for (int i = 0; i < to.rank(); ++i)
        if (to[i] == -1) shape[i] = 1, shape[i] = shape.numel() == 0 ? 0 : from.numel() / shape.numel();
      return picked(in[0], shape, [](std::int64_t i) { return i; });
    });
  }
}

TEST(Shape, PermuteAnyOrder) {
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{33, 2, 65}, Shape{1, 17, 1}, Shape{0, 2, 3}}) {
    std::vector<int> axes = {0, 1, 2};
    do {
      check_op(
          {.name = "permute " + shape.str(), .inputs = {{.shape = shape}}, .differences = shape.numel() < 100},
          [&](Context& ctx, const Tensors& in) { return permute(ctx, in[0], axes); },
          [&](const auto& in) {
        const Shape to{shape[axes[0]], shape[axes[1]], shape[axes[2]]};
        return picked(in[0], to, [&](std::int64_t i) {
          std::int64_t at[3];
          at[axes[2]] = i % to[2], at[axes[1]] = i / to[2] % to[1], at[axes[0]] = i / to[2] / to[1];
          return (at[0] * shape[1] + at[1]) * shape[2] + at[2];
        });
          });
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

TEST(Shape, TransposeOfEveryDTypeAndOfColumnBlocks) {
  Context ctx;
  std::vector<float> values(70 * 90);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 120);
  const Tensor base = tensor(ctx, {70, 90}, values);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::uint8}) {
    const Tensor x = cast(ctx, base, dtype).column_block(3, 80);
    const Tensor y = cast(ctx, transpose(ctx, x, 0, -1), DType::float32);
    ASSERT_EQ(y.shape().str(), "[80, 70]");
    const std::vector<float> got = y.to_vector<float>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 80; ++i)
      for (std::size_t j = 0; j < 70; ++j) wrong += got[i * 70 + j] != values[j * 90 + i + 3] ? 1 : 0;
    EXPECT_EQ(wrong, 0U) << name_of(dtype);
  }
}

TEST(Shape, SliceAlongEveryAxis) {
  const Shape shape{4, 5, 17};
  for (int axis = 0; axis < 3; ++axis) {
    for (const auto& [begin, count] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {1, 3}, {3, 1}, {2, 0}, {0, shape[axis]}}) {
      check_op(
          {.name = "slice axis " + std::to_string(axis) + " from " + std::to_string(begin), .inputs = {{.shape = shape}}},
          [&, b = begin, n = count](Context& ctx, const Tensors& in) { return slice(ctx, in[0], axis - 3, b, n); },
          [&, b = begin, n = count](const auto& in) {
        Shape to = shape;
        to[axis] = n;
        return picked(in[0], to, [&](std::int64_t i) {
          std::int64_t at[3] = {i / to[2] / std::max<std::int64_t>(to[1], 1), i / to[2] % std::max<std::int64_t>(to[1], 1), i % to[2]};
          at[axis] += b;
          return (at[0] * shape[1] + at[1]) * shape[2] + at[2];
        });
          });
    }
  }
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {4, 6});
  EXPECT_EQ(slice(ctx, x, 0, 1, 2).raw(), x.row_block(1, 2).raw());
  EXPECT_EQ(slice(ctx, x, 1, 2, 3).raw(), x.column_block(2, 3).raw());
}

TEST(Shape, SlicesOfOneTensorAddTheirGradients) {
  Context ctx;
  Tensor x = tensor(ctx, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  require_grad(x);
  const Tensor y = concat(ctx, {slice(ctx, x, 1, 0, 3), slice(ctx, x, 1, 1, 3)}, 0);
  expect_near(y, {1, 2, 3, 5, 6, 7, 2, 3, 4, 6, 7, 8}, 0.0);
  backward(ctx, y, tensor(ctx, {4, 3}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}));
  expect_near(gradient(x), {1, 12, 23, 30, 4, 45, 56, 60}, 0.0);
}

TEST(Shape, ConcatAlongEveryAxis) {
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<Input> inputs;
    for (std::int64_t n : {2, 1, 0, 17}) {
      Shape s{2, 3, 5};
      s[axis] = n;
      inputs.push_back({.shape = s});
    }
    check_op(
        {.name = "concat axis " + std::to_string(axis), .inputs = inputs},
        [&](Context& ctx, const Tensors& in) { return concat(ctx, in, axis); },
        [&](const auto& in) {
      auto y = in[0];
      y.shape[axis] = 20;
      y.values.clear();
      std::int64_t outer = 1, inner = 1;
      for (int i = 0; i < 3; ++i) (i < axis ? outer : inner) *= i == axis ? 1 : y.shape[i];
      for (std::int64_t o = 0; o < outer; ++o)
        for (const auto& x : in)
          for (std::int64_t k = 0; k < x.shape[axis] * inner; ++k) y.values.push_back(x[o * x.shape[axis] * inner + k]);
      return y;
        });
  }
}

TEST(Shape, CastKeepsGradientsAndLeavesIntegersWithout) {
  Context ctx;
  Tensor x = tensor(ctx, {3}, {1.5F, -2.25F, 3});
  require_grad(x);
  const Tensor y = cast(ctx, x, DType::bfloat16);
  EXPECT_EQ(y.dtype(), DType::bfloat16);
  backward(ctx, y, tensor(ctx, {3}, {1, 2, 3}));
  EXPECT_EQ(gradient(x).dtype(), DType::float32);
  expect_near(gradient(x), {1, 2, 3}, 0.0);
  EXPECT_FALSE(has_gradient(cast(ctx, x, DType::int32)));
  EXPECT_TRUE(cast(ctx, x, DType::float32).same_memory(x));
}

TEST(Shape, ColumnBlocksBecomeContiguousWithGradient) {
  Context ctx;
  Tensor x = tensor(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  require_grad(x);
  const Tensor block = slice(ctx, x, 1, 1, 2), y = reshape(ctx, contiguous(ctx, block), {4});
  EXPECT_FALSE(block.is_contiguous());
  expect_near(y, {2, 3, 5, 6}, 0.0);
  expect_near(reshape(ctx, block, {4}), {2, 3, 5, 6}, 0.0);
  EXPECT_EQ(reshape(ctx, block, {1, 2, 2}).raw(), block.raw());
  backward(ctx, y, tensor(ctx, {4}, {1, 2, 3, 4}));
  expect_near(gradient(x), {0, 1, 2, 0, 3, 4}, 0.0);
}

TEST(Shape, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 3});
  expect_error([&] { reshape(ctx, x, {4, 2}); }, {"reshape", "[2, 3]", "[4, 2]"});
  expect_error([&] { reshape(ctx, x, {-1, -1}); }, {"reshape", "-1"});
  expect_error([&] { reshape(ctx, x, {-1, 4}); }, {"reshape", "[2, 3]"});
  expect_error([&] { permute(ctx, x, {0, 0}); }, {"permute", "[2, 3]"});
  expect_error([&] { permute(ctx, x, {0}); }, {"permute"});
  expect_error([&] { transpose(ctx, x, 0, 2); }, {"transpose", "axis 2"});
  expect_error([&] { slice(ctx, x, 1, 2, 2); }, {"slice", "[2, 3]"});
  expect_error([&] { slice(ctx, x, 0, -1, 1); }, {"slice", "-1"});
  expect_error([&] { concat(ctx, {}, 0); }, {"concat"});
  expect_error([&] { concat(ctx, {x, Tensor::zeros(ctx, {3, 3})}, 1); }, {"concat", "[2, 3]", "[3, 3]"});
  expect_error([&] { concat(ctx, {x, Tensor::zeros(ctx, {2})}, 0); }, {"concat", "[2]"});
  expect_error([&] { concat(ctx, {x, Tensor::zeros(ctx, {2, 3}, DType::int32)}, 0); }, {"concat", "int32"});
  expect_error([&] { cast(ctx, Tensor(), DType::float32); }, {"cast", "undefined"});
}

}  // namespace
}  // namespace transformer::test
