#include "transformer/nn/positions.h"

#include "support/op_check.h"

namespace transformer::test {

TEST(Positions, IdsStartAnewWithEverySequence) {
  Context ctx;
  const Sequences s(std::vector<std::int64_t>{3, 0, 1, 2});
  EXPECT_EQ(position_ids(ctx, s).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 0, 0, 1}));
}

// Marian's table: the same columns, the sines first.
TEST(Positions, SinusoidsInHalves) {
  Context ctx;
  for (std::int64_t d : {6, 7}) {
    const std::vector<float> beside = sinusoidal_table(ctx, 5, d).to_vector<float>(),
                             halves = sinusoidal_table(ctx, 5, d, true).to_vector<float>();
    for (std::int64_t p = 0; p < 5; ++p)
      for (std::int64_t i = 0; i < d; ++i) {
        const std::int64_t column = i % 2 == 0 ? i / 2 : (d + 1) / 2 + i / 2;
        EXPECT_EQ(halves[static_cast<std::size_t>(p * d + column)], beside[static_cast<std::size_t>(p * d + i)]) << p << " " << i;
      }
  }
}

TEST(Positions, LearnedTablesMayBeginLater) {
  Context ctx;
  AddedPositions positions(PositionKind::learned, 3, 2, 4);  // as BART's, which leaves rows unused
  EXPECT_EQ(positions.table.shape.str(), "[7, 2]");
  initialize(ctx, positions);
  const Sequences s(std::vector<std::int64_t>{2, 3});
  const std::vector<float> table = positions.table.tensor.to_vector<float>(),
                           y = positions(ctx, Tensor::zeros(ctx, {5, 2}), s).to_vector<float>();
  const std::vector<std::size_t> rows{4, 5, 4, 5, 6};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], table[rows[i / 2] * 2 + i % 2]) << i;
  expect_error([&] { positions(ctx, Tensor::zeros(ctx, {4, 2}), Sequences::uniform(1, 4)); }, {"4 tokens", "3 positions"});
}

// Buckets of distances as T5 has them: exact up to half of a direction's buckets, then logarithmic, then saturated.
TEST(Positions, RelativeBuckets) {
  auto both = [](std::int64_t distance) { return relative_bucket(distance, true, 32, 128); };
  EXPECT_EQ(both(0), 0);
  EXPECT_EQ(both(-1), 1);
  EXPECT_EQ(both(1), 17);
  EXPECT_EQ(both(-7), 7);
  EXPECT_EQ(both(-8), 8);
  EXPECT_EQ(both(-12), 9);
  EXPECT_EQ(both(-128), 15);
  EXPECT_EQ(both(-5000), 15);
  EXPECT_EQ(both(5000), 31);
  auto back = [](std::int64_t distance) { return relative_bucket(distance, false, 32, 128); };
  EXPECT_EQ(back(3), 0);
  EXPECT_EQ(back(-15), 15);
  EXPECT_EQ(back(-16), 16);
  EXPECT_EQ(back(-1000), 31);
  for (std::int64_t d = -300; d < 0; ++d) EXPECT_GE(both(d), both(d + 1)) << d;
}

TEST(Positions, AlibiSlopes) {
  const std::vector<float> eight = alibi_slopes(8);
  for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(eight[static_cast<std::size_t>(i)], std::exp2(-static_cast<float>(i + 1)));
  const std::vector<float> six = alibi_slopes(6);  // four heads' slopes, then every other of eight
  const std::vector<float> want{0.25F, 0.0625F, 0.015625F, 0.00390625F, 0.5F, 0.125F};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_FLOAT_EQ(six[i], want[i]);
}

TEST(Positions, BiasByDistanceHasATrainedValuePerBucket) {
  Context ctx;
  StackConfig config{.heads = 2, .positions = PositionKind::relative, .relative_buckets = 4, .relative_max_distance = 8};
  AttentionPositions positions(config.resolved());
  initialize(ctx, positions);
  const Tensor bias = positions.bias(ctx, 3);  // distances −2 … 2
  EXPECT_EQ(bias.shape().str(), "[2, 5]");
  const std::vector<float> table = positions.relative.tensor.to_vector<float>(), values = bias.to_vector<float>();
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(h * 5 + i)], table[static_cast<std::size_t>(relative_bucket(i - 2, true, 4, 8) * 2 + h)]);
  backward(ctx, bias, Tensor::full(ctx, {2, 5}, 1.0F));
  std::vector<double> want(8, 0.0);  // how often each bucket occurs
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t h = 0; h < 2; ++h) want[static_cast<std::size_t>(relative_bucket(i - 2, true, 4, 8) * 2 + h)] += 1.0;
  expect_near(gradient(positions.relative.tensor), want, 1e-6);
}

}  // namespace transformer::test
