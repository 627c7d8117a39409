#include "transformer/ops/rope.h"

#include "support/op_check.h"

namespace transformer::test {
namespace {

Tensor positions(Context& ctx, const std::vector<std::int32_t>& p) {
  return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(p.size())}, p);
}

template <class S>
Array<S> reference_rope(const Array<S>& x, const std::vector<std::int32_t>& position, const RopeOptions& o, double base) {
  Array<S> y = x;
  for (std::int64_t t = 0; t < x.dim(0); ++t)
    for (std::int64_t head = 0; head < o.heads; ++head)
      for (std::int64_t i = 0; i < o.rotary_dim / 2; ++i) {
        const double angle = position[static_cast<std::size_t>(t)] *
            std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(o.rotary_dim));
        const bool neighbours = o.pairs == RopePairs::interleaved;
        const std::int64_t a = head * o.head_dim + (neighbours ? 2 * i : i),
                           b = head * o.head_dim + (neighbours ? 2 * i + 1 : i + o.rotary_dim / 2);
        y.at(t, a) = x.at(t, a) * S(std::cos(angle)) - x.at(t, b) * S(std::sin(angle));
        y.at(t, b) = x.at(t, b) * S(std::cos(angle)) + x.at(t, a) * S(std::sin(angle));
      }
  return y;
}

}  // namespace

TEST(Rope, AgreesWithReference) {
  const std::vector<std::int32_t> position = {0, 5, 1, 1, 30};
  for (RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
    for (RopeOptions o :
         std::vector<RopeOptions>{{1, 2, 2, pairs}, {3, 6, 4, pairs}, {2, 34, 34, pairs}, {1, 65, 64, pairs}, {4, 10, 2, pairs}})
      for (std::int64_t rest : {0, 7})  // columns behind the heads that stay as they are
        check_op(
            {.name = "rope", .inputs = {{.shape = {5, o.heads * o.head_dim + rest}}}},
            [=](Context& ctx, const Tensors& in) {
          return rope(ctx, in[0], positions(ctx, position), rope_table(ctx, 31, o.rotary_dim), o);
            },
            [=](const auto& in) { return reference_rope(in[0], position, o, 10000.0); });
}

TEST(Rope, TurnsTheWholeHeadByDefault) {
  Context ctx;
  const Tensor x = tensor(ctx, {1, 4}, {1, 0, 0, 1});
  const Tensor y = rope(ctx, x, positions(ctx, {1}), rope_table(ctx, 2, 4, 100.0F), {.heads = 1, .head_dim = 4});
  expect_near(y, {std::cos(1.0), -std::sin(0.1), std::sin(1.0), std::cos(0.1)}, 1e-6);
}

// What RoPE is for: q·k after turning depends on the difference of the positions alone.
TEST(Rope, ProductsDependOnTheDistanceAlone) {
  Context ctx;
  const RopeTable table = rope_table(ctx, 512, 64);
  std::vector<float> q, k;
  for (std::uint64_t i = 0; i < 64; ++i) {
    q.push_back(RandomStream{1, 0, 0}.uniform(i) - 0.5F);
    k.push_back(RandomStream{2, 0, 0}.uniform(i) - 0.5F);
  }
  for (RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved}) {
    auto product = [&](std::int32_t i, std::int32_t j) {
      const RopeOptions o{.heads = 1, .head_dim = 64, .rotary_dim = 64, .pairs = pairs};
      const std::vector<float> a = rope(ctx, tensor(ctx, {1, 64}, q), positions(ctx, {i}), table, o).to_vector<float>();
      const std::vector<float> b = rope(ctx, tensor(ctx, {1, 64}, k), positions(ctx, {j}), table, o).to_vector<float>();
      double sum = 0.0;
      for (std::size_t n = 0; n < 64; ++n) sum += static_cast<double>(a[n]) * static_cast<double>(b[n]);
      return sum;
    };
    for (std::int32_t distance : {0, 1, 7, 100})
      for (std::int32_t start : {1, 50, 400})
        EXPECT_NEAR(product(start + distance, start), product(distance, 0), 1e-5) << distance << " from " << start;
    EXPECT_GT(std::abs(product(1, 0) - product(7, 0)), 1e-2);
  }
}

TEST(Rope, NoTokensAndStridedRows) {
  Context ctx;
  const RopeOptions o{.heads = 1, .head_dim = 2};
  EXPECT_EQ(rope(ctx, Tensor::empty(ctx, {0, 2}), positions(ctx, {}), rope_table(ctx, 4, 2), o).shape().str(), "[0, 2]");
  const Tensor x = tensor(ctx, {2, 3}, {9, 1, 2, 9, 3, 4});
  expect_near(rope(ctx, x.column_block(1, 2), positions(ctx, {0, 0}), rope_table(ctx, 4, 2), o), {1, 2, 3, 4}, 0.0);
}

TEST(Rope, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor x = Tensor::zeros(ctx, {2, 8}), p = positions(ctx, {0, 1});
  const RopeTable table = rope_table(ctx, 4, 4);
  const RopeOptions o{.heads = 2, .head_dim = 4};
  expect_error([&] { rope(ctx, {}, p, table, o); }, {"rope", "x is undefined"});
  expect_error([&] { rope(ctx, x, {}, table, o); }, {"rope", "position is undefined"});
  expect_error([&] { rope(ctx, x, p, {}, o); }, {"rope", "cos is undefined"});
  expect_error([&] { rope(ctx, x, positions(ctx, {0, 4}), table, o); }, {"rope", "position 4", "token 1", "4 positions"});
  expect_error([&] { rope(ctx, x, positions(ctx, {-1, 0}), table, o); }, {"rope", "position -1", "token 0"});
  expect_error([&] { rope(ctx, x, positions(ctx, {0}), table, o); }, {"rope", "position [1]", "int32 [2]"});
  expect_error([&] { rope(ctx, x, Tensor::zeros(ctx, {2}, DType::int64), table, o); }, {"rope", "int64", "int32 [2]"});
  expect_error([&] { rope(ctx, x, p, table, {.heads = 3, .head_dim = 4}); }, {"rope", "[2, 8]", "3 heads of 4"});
  expect_error([&] { rope(ctx, x, p, table, {.heads = 2, .head_dim = 4, .rotary_dim = 3}); }, {"rope", "rotary_dim 3", "even"});
  expect_error([&] { rope(ctx, x, p, table, {.heads = 2, .head_dim = 4, .rotary_dim = 6}); }, {"rope", "rotary_dim 6", "head_dim 4"});
  expect_error([&] { rope(ctx, x, p, table, {.heads = 2, .head_dim = 4, .rotary_dim = 2}); }, {"rope", "[4, 2]", "[positions, 1]"});
  expect_error([&] { rope(ctx, x, p, table, {.heads = 1}); }, {"rope", "head_dim 0"});
  expect_error([&] { rope_table(ctx, 4, 3); }, {"rope_table", "3"});
}

}  // namespace transformer::test
