// The numbers that texts about the Transformer work out by hand.
#include "support/op_check.h"
#include "transformer/transformer.h"

namespace transformer::test {

TEST(WorkedNumbers, MatrixAndDotProduct) {
  Context ctx;
  expect_near(matmul(ctx, tensor(ctx, {2, 2}, {1, 2, 3, 4}), tensor(ctx, {2, 2}, {5, 6, 7, 8})), {19, 22, 43, 50}, 0.0);
  expect_near(sum(ctx, mul(ctx, tensor(ctx, {3}, {1, 2, 3}), tensor(ctx, {3}, {4, 5, 6}))), {32}, 0.0);
}

TEST(WorkedNumbers, Softmax) {
  Context ctx;
  expect_near(softmax(ctx, tensor(ctx, {3}, {2.0F, 1.0F, 0.1F})), {0.659, 0.242, 0.099}, 5e-4);
}

TEST(WorkedNumbers, CrossEntropyOfProbability07) {
  Context ctx;
  const Tensor logits = log(ctx, tensor(ctx, {1, 3}, {0.7F, 0.2F, 0.1F}));
  expect_near(cross_entropy(ctx, logits, Tensor::from<std::int64_t>(ctx, {1}, {0}), {}), {0.3567}, 5e-5);
}

TEST(WorkedNumbers, PositionalEncoding) {
  Context ctx;
  const Tensor pe = sinusoidal_table(ctx, 2, 4);
  expect_near(pe.row_block(0, 1), {0, 1, 0, 1}, 0.0);
  expect_near(pe.row_block(1, 1), {0.8415, 0.5403, 0.0100, 0.99995}, 5e-5);
  // d_model 8: the second pair's frequency is 1/10, so sin(0.1), not 0.01.
  EXPECT_NEAR(sinusoidal_table(ctx, 2, 8).to_vector<float>()[8 + 2], 0.0998, 5e-5);
}

TEST(WorkedNumbers, PositionalEncodingOfAShiftIsALinearMap) {
  Context ctx;
  const std::int64_t d = 64, k = 7;
  const std::vector<float> pe = sinusoidal_table(ctx, 50, d).to_vector<float>();
  for (std::int64_t pos = 0; pos < 40; ++pos)
    for (std::int64_t i = 0; i < d; i += 2) {  // a rotation of each pair by k·ω, whatever pos is
      const double angle = static_cast<double>(k) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(d));
      const double s = pe[static_cast<std::size_t>(pos * d + i)], c = pe[static_cast<std::size_t>(pos * d + i + 1)];
      EXPECT_NEAR(pe[static_cast<std::size_t>((pos + k) * d + i)], s * std::cos(angle) + c * std::sin(angle), 1e-5);
      EXPECT_NEAR(pe[static_cast<std::size_t>((pos + k) * d + i + 1)], c * std::cos(angle) - s * std::sin(angle), 1e-5);
    }
}

TEST(WorkedNumbers, AttentionOfThreeTokens) {
  Context ctx;
  const Tensor q = tensor(ctx, {3, 4}, {1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0});
  const Tensor k = tensor(ctx, {3, 4}, {1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0});
  const Tensor v = tensor(ctx, {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor scores = matmul(ctx, q, k, false, true);
  expect_near(scores, {1, 1, 2, 1, 1, 0, 2, 0, 1}, 0.0);
  const Tensor scaled = scale(ctx, scores, 0.5F);
  expect_near(scaled, {0.5, 0.5, 1, 0.5, 0.5, 0, 1, 0, 0.5}, 0.0);
  const Tensor weights = softmax(ctx, scaled);
  std::vector<double> want;  // the rest follows
  for (auto row : {std::array{0.5, 0.5, 1.0}, std::array{0.5, 0.5, 0.0}, std::array{1.0, 0.0, 0.5}}) {
    const double total = std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2]);
    for (double s : row) want.push_back(std::exp(s) / total);
  }
  expect_near(weights, want, 1e-6);
  const Tensor output = matmul(ctx, weights, v);

  Tensor fused_weights;
  const Tensor fused = attention(
      ctx, q, k, v,
      {.queries = Sequences::uniform(1, 3), .keys = Sequences::uniform(1, 3), .heads = 1, .head_dim = 4, .weights = &fused_weights});
  expect_near(fused_weights, want, 1e-6);
  expect_near(fused, detail::to_double(output), 1e-5);
}

TEST(WorkedNumbers, HeadsOf512Dimensions) {
  Context ctx;
  const Tensor x = random_normal(ctx, {10, 512});
  const Tensor heads = reshape(ctx, x, {10, 8, 64});
  EXPECT_EQ(heads.shape().str(), "[10, 8, 64]");
  expect_near(reshape(ctx, heads, {10, 512}), detail::to_double(x), 0.0);
}

// "나는 학교에 간다": three tokens, 512 dimensions, 8 heads: per head Q, K, V are 3×64 and the scores 3×3.
TEST(WorkedNumbers, ThreeTokensInEightHeads) {
  Context ctx;
  const Tensor q = permute(ctx, reshape(ctx, random_normal(ctx, {3, 512}), {3, 8, 64}), {1, 0, 2});
  const Tensor k = permute(ctx, reshape(ctx, random_normal(ctx, {3, 512}), {3, 8, 64}), {1, 0, 2});
  EXPECT_EQ(slice(ctx, q, 0, 0, 1).shape().str(), "[1, 3, 64]");
  EXPECT_EQ(matmul(ctx, q, k, false, true).shape().str(), "[8, 3, 3]");
}

TEST(WorkedNumbers, EncoderParameters) {
  const Encoder encoder({.d_model = 256, .num_heads = 8, .d_ff = 1024, .num_layers = 6, .src_vocab_size = 0, .norm = NormPlace::pre});
  EXPECT_EQ(count_parameters(encoder), 4'739'072);
}

TEST(WorkedNumbers, EncoderBlock) {
  Context ctx;
  Encoder encoder({.d_model = 512, .num_heads = 8, .d_ff = 2048, .num_layers = 1, .src_vocab_size = 0});
  initialize(ctx, encoder);
  StackTrace trace;
  const Tensor y = encoder(ctx, random_normal(ctx, {2 * 16, 512}), Sequences::uniform(2, 16), {}, &trace);
  EXPECT_EQ(reshape(ctx, y, {2, 16, 512}).shape().str(), "[2, 16, 512]");
  const Tensor averaged = mean(ctx, trace.attentions.at(0), {1});
  EXPECT_EQ(averaged.shape().str(), "[2, 16, 16]");
  expect_near(sum(ctx, averaged, {2}), std::vector<double>(32, 1.0), 1e-5);
}

TEST(WorkedNumbers, TheFeedForwardHoldsTwoThirdsOfALayer) {
  const Encoder encoder({.d_model = 512, .num_heads = 8, .d_ff = 2048, .num_layers = 1, .src_vocab_size = 0});
  std::int64_t ffn = 0;
  for (const auto& [name, p] : parameters(const_cast<Encoder&>(encoder)))
    if (name.find("feed_forward.") != std::string::npos) ffn += p->shape.numel();
  EXPECT_NEAR(static_cast<double>(ffn) / static_cast<double>(count_parameters(encoder)), 2.0 / 3.0, 0.01);
}

TEST(WorkedNumbers, ThirtyDaysInPatchesOfSix) {
  Context ctx;
  EXPECT_EQ(patch_count(30, 6, 3), 9);
  EXPECT_EQ(patchify_series(ctx, Tensor::zeros(ctx, {1, 30}), 6, 3).shape().str(), "[9, 6]");
  EXPECT_EQ(patchify(ctx, Tensor::zeros(ctx, {1, 3, 32, 32}), {.height = 8, .width = 8}).shape().str(), "[16, 192]");  // 4×4 patches
}

TEST(WorkedNumbers, LearningRatePeaksAtStep4000) {
  const Schedule paper{.kind = Schedule::Kind::inverse_sqrt, .warmup = 4000, .d_model = 512};
  EXPECT_NEAR(paper(4000), std::pow(512.0, -0.5) * std::pow(4000.0, -0.5), 1e-9);
  EXPECT_GT(paper(4000), paper(3999));
  EXPECT_GT(paper(4000), paper(4001));
}

}  // namespace transformer::test
