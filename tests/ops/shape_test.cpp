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

}  // namespace
}  // namespace transformer::test
