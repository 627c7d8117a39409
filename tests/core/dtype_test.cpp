#include "transformer/core/dtype.h"

#include "support/op_check.h"

namespace transformer::test {

TEST(DType, EveryFloat16IsExactInFloat32AndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 h;
    h.bits = static_cast<std::uint16_t>(bits);
    const auto f = static_cast<float>(h);
    if (std::isnan(f)) EXPECT_TRUE(std::isnan(static_cast<float>(float16(f))));
    else EXPECT_EQ(float16(f).bits, h.bits) << bits;
  }
}

TEST(DType, RoundsToNearestEven) {
  EXPECT_EQ(float16(1.0F + 0x1p-11F).bits, float16(1.0F).bits);  // a tie goes to the even neighbour
  EXPECT_EQ(static_cast<float>(float16(1.0F + 0x1.8p-10F)), 1.0F + 0x1p-9F);
  EXPECT_EQ(static_cast<float>(float16(65519.0F)), 65504.0F);
  EXPECT_TRUE(std::isinf(static_cast<float>(float16(65520.0F))));
  EXPECT_EQ(float16(0x1p-25F).bits, 0U);  // half of the smallest subnormal
  EXPECT_EQ(float16(0x1.8p-25F).bits, 1U);
  EXPECT_EQ(float16(-0.0F).bits, 0x8000U);

  EXPECT_EQ(bfloat16(1.0F + 0x1p-8F).bits, bfloat16(1.0F).bits);
  EXPECT_EQ(static_cast<float>(bfloat16(1.0F + 0x1.8p-7F)), 1.0F + 0x1p-6F);
  EXPECT_TRUE(std::isinf(static_cast<float>(bfloat16(3.4e38F))));
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(NAN))));
  EXPECT_TRUE(std::isinf(static_cast<float>(bfloat16(-INFINITY))));
}

TEST(Device, NamesAreParsed) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  EXPECT_EQ(Device::parse("cuda").str(), "cuda:0");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x"}) expect_error([&] { Device::parse(bad); }, {"Device", bad, "expected"});
}

TEST(Shape, BroadcastsAndRefuses) {
  EXPECT_EQ(Shape::broadcast("op", {2, 1, 3}, {4, 1}).str(), "[2, 4, 3]");
  EXPECT_EQ(Shape::broadcast("op", {}, {4, 1}).str(), "[4, 1]");
  EXPECT_EQ(Shape::broadcast("op", {0}, {1}).str(), "[0]");
  expect_error([] { Shape::broadcast("op", {2, 3}, {2, 4}); }, {"op", "[2, 3]", "[2, 4]"});
  expect_error([] { (void)Shape{1, 2}[2]; }, {"axis 2", "[1, 2]"});
  expect_error([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"9 dimensions", "8"});
}

}  // namespace transformer::test
