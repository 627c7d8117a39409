#include "transformer/ops/dropout.h"

#include "backend/kernels.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

Tensor ones(Context& ctx, const Shape& shape, DType dtype = DType::float32) { return Tensor::full(ctx, shape, 1.0F, dtype); }

TEST(Dropout, IsTheIdentityUnlessTraining) {
  Context ctx;
  const Tensor x = ones(ctx, {3, 5});
  EXPECT_TRUE(dropout(ctx, x, 0.5F).same_memory(x));
  ctx.set_training(true);
  EXPECT_TRUE(dropout(ctx, x, 0.0F).same_memory(x));
  EXPECT_FALSE(dropout(ctx, x, 0.5F).same_memory(x));
}

TEST(Dropout, DropsTheShareAskedForAndKeepsTheMean) {
  Context ctx({.seed = 11});
  ctx.set_training(true);
  for (float p : {0.1F, 0.5F, 0.9F}) {
    const std::vector<float> y = dropout(ctx, ones(ctx, {400, 500}), p).to_vector<float>();
    double zeros = 0.0, sum = 0.0;
    for (float v : y) {
      EXPECT_TRUE(v == 0.0F || v == 1.0F / (1.0F - p));
      zeros += v == 0.0F ? 1.0 : 0.0;
      sum += v;
    }
    const double n = static_cast<double>(y.size());
    EXPECT_NEAR(zeros / n, p, 5e-3);
    EXPECT_NEAR(sum / n, 1.0, 2e-2);
  }
}

TEST(Dropout, BackwardDrawsTheSameMask) {
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    Context ctx({.seed = 5});
    ctx.set_training(true);
    Tensor x = ones(ctx, {7, 67}, dtype);
    require_grad(x);
    const Tensor y = dropout(ctx, x, 0.25F);
    const std::vector<double> mask = detail::to_double(y);
    backward(ctx, y, ones(ctx, {7, 67}, dtype));
    expect_near(gradient(x), mask, 0.0);
  }
}

TEST(Dropout, FollowsTheStreamWhateverTheThreadsAndStrides) {
  const RandomStream stream{0x123456789abcdefULL, 3, 4};
  const DropoutArgs args{0.3F, stream};
  for (int threads : {1, 2, 3}) {
    Context ctx({.threads = threads});
    for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 50001}, {5, 67}, {3, 1}, {700, 73}, {0, 4}}) {
      Tensor wide = ones(ctx, {rows, cols + 3});
      Tensor x = wide.column_block(2, cols), y = Tensor::empty(ctx, {rows, cols});
      kernels(ctx).dropout(ctx, x, args, y);
      const std::vector<float> got = y.to_vector<float>();
      std::size_t wrong = 0;
      for (std::size_t e = 0; e < got.size(); ++e) {
        const bool dropped = stream.bits(e) < static_cast<std::uint32_t>(static_cast<double>(0.3F) * 0x1p32);
        wrong += got[e] != (dropped ? 0.0F : 1.0F / (1.0F - 0.3F)) ? 1 : 0;
      }
      EXPECT_EQ(wrong, 0U) << rows << "x" << cols << " on " << threads << " threads";
    }
  }
}

TEST(Dropout, EveryCallDrawsAnotherMaskAndStepsRepeat) {
  Context ctx({.seed = 5});
  ctx.set_training(true);
  const Tensor x = ones(ctx, {999});
  ctx.random().begin_step(7);
  const std::vector<float> first = dropout(ctx, x, 0.5F).to_vector<float>(), second = dropout(ctx, x, 0.5F).to_vector<float>();
  EXPECT_NE(first, second);
  ctx.random().begin_step(7);
  EXPECT_EQ(dropout(ctx, x, 0.5F).to_vector<float>(), first);
}

// A sequence stays as a whole, scaled, or goes as a whole; its gradient alike.
TEST(Dropout, WholeSequences) {
  for (DType dtype : {DType::float32, DType::bfloat16})
    for (const bool uniform : {true, false}) {
      Context ctx({.seed = 3});
      std::vector<std::int64_t> lengths;
      for (std::int64_t i = 0; i < 200; ++i) lengths.push_back(uniform ? 3 : i % 4);
      const Sequences sequences(lengths);
      Tensor x = ones(ctx, {sequences.total(), 5}, dtype);
      EXPECT_TRUE(drop_sequences(ctx, x, sequences, 0.5F).same_memory(x));
      ctx.set_training(true);
      require_grad(x);
      const Tensor y = drop_sequences(ctx, x, sequences, 0.5F);
      const std::vector<double> values = detail::to_double(y);
      int kept = 0;
      for (std::int64_t i = 0; i < 200; ++i)
        for (std::int64_t j = sequences.begin(i) * 5; j < (sequences.begin(i) + sequences.length(i)) * 5; ++j) {
          const double first = values[static_cast<std::size_t>(sequences.begin(i) * 5)], value = values[static_cast<std::size_t>(j)];
          EXPECT_TRUE(value == 0.0 || value == 2.0);
          EXPECT_EQ(value, first);
          kept += j == sequences.begin(i) * 5 && value == 2.0 ? 1 : 0;
        }
      EXPECT_NEAR(kept, uniform ? 100 : 75, 20);
      backward(ctx, y, ones(ctx, y.shape(), dtype));
      expect_near(gradient(x), values, 0.0);
      expect_error([&] { drop_sequences(ctx, x, Sequences::uniform(1, 2), 0.5F); }, {"drop_sequences", "2 tokens"});
    }
}

TEST(Dropout, RefusesOtherProbabilities) {
  Context ctx;
  const Tensor x = ones(ctx, {2});
  for (float p : {-0.1F, 1.0F, 2.0F, NAN}) expect_error([&] { dropout(ctx, x, p); }, {"dropout", "[0, 1)"});
  expect_error([&] { dropout(ctx, Tensor(), 0.5F); }, {"dropout", "undefined"});
}

}  // namespace
}  // namespace transformer::test
