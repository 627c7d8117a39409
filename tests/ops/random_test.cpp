#include "transformer/core/random.h"

#include "backend/kernels.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known-answer vectors that Random123 publishes for philox4x32 with 10 rounds.
TEST(Random, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Random, UniformNumbersAreThoseOfTheStream) {
  const RandomStream stream{0xfedcba9876543210ULL, 8, 9};
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    for (std::int64_t n : {0, 1, 17, 63, 64, 65, 50001}) {
      Tensor y = Tensor::empty(ctx, {n});
      kernels(ctx).uniform(ctx, stream, 0.0F, 1.0F, y);
      const std::vector<float> got = y.to_vector<float>();
      std::size_t wrong = 0;
      for (std::size_t e = 0; e < got.size(); ++e) wrong += got[e] != stream.uniform(e) ? 1 : 0;
      EXPECT_EQ(wrong, 0U) << n << " on " << threads << " threads";
    }
    // Rows that begin in the middle of a group of the stream.
    Tensor wide = Tensor::zeros(ctx, {5, 70}), block = wide.column_block(1, 67);
    kernels(ctx).uniform(ctx, stream, -2.0F, 3.0F, block);
    const std::vector<float> got = block.to_vector<float>();
    for (std::size_t e = 0; e < got.size(); ++e) EXPECT_NEAR(got[e], -2.0 + 5.0 * stream.uniform(e), 1e-6);
    EXPECT_EQ(wide.to_vector<float>()[70], 0.0F);
  }
}

TEST(Random, NormalNumbersFollowBoxMuller) {
  const RandomStream stream{42, 1, 2};
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    Tensor y = Tensor::empty(ctx, {50001});
    kernels(ctx).normal(ctx, stream, 0.0F, 1.0F, y);
    results.push_back(y.to_vector<float>());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  for (std::uint64_t e = 0; e < 1000; ++e) {
    const std::uint64_t first = e & ~std::uint64_t{16};
    const double r = std::sqrt(-2.0 * std::log(stream.uniform(first) + 0x1p-24)), angle = 2.0 * M_PI * stream.uniform(first + 16);
    EXPECT_NEAR(results[0][e], e == first ? r * std::cos(angle) : r * std::sin(angle), 3e-6) << e;
  }
}

TEST(Random, NormalNumbersHaveTheMomentsOfTheDistribution) {
  Context ctx;
  Tensor y = Tensor::empty(ctx, {1000, 300});
  kernels(ctx).normal(ctx, {3, 0, 0}, 2.0F, 0.5F, y);
  double mean = 0.0, square = 0.0, fourth = 0.0, near = 0.0;
  const std::vector<float> values = y.to_vector<float>();
  const double n = static_cast<double>(values.size());
  for (float v : values) {
    const double z = (v - 2.0) / 0.5;
    mean += z / n, square += z * z / n, fourth += z * z * z * z / n, near += std::abs(z) < 1.0 ? 1.0 / n : 0.0;
  }
  EXPECT_NEAR(mean, 0.0, 1e-2);
  EXPECT_NEAR(square, 1.0, 1e-2);
  EXPECT_NEAR(fourth, 3.0, 1e-1);
  EXPECT_NEAR(near, 0.6827, 5e-3);
}

}  // namespace
}  // namespace transformer::test
