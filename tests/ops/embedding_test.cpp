#include "transformer/ops/embedding.h"

#include "support/op_check.h"

namespace transformer::test {
namespace {

template <class S>
Array<S> reference_embedding(const std::vector<std::int64_t>& ids, const Array<S>& table, double scale) {
  Array<S> y(Shape{static_cast<std::int64_t>(ids.size()), table.dim(1)});
  for (std::size_t r = 0; r < ids.size(); ++r)
    for (std::int64_t i = 0; i < table.dim(1); ++i) y.at(static_cast<std::int64_t>(r), i) = table.at(ids[r], i) * S(scale);
  return y;
}

}  // namespace

TEST(Embedding, AgreesWithReference) {
  const std::vector<std::int64_t> ids = {4, 0, 2, 4, 4, 1, 0};
  for (std::int64_t d : {1, 3, 17, 65})
    for (float scale : {1.0F, 8.0F})
      for (bool master : {true, false})
        check_op(
            {.name = "embedding", .inputs = {{.shape = {5, d}, .master = master}, {.shape = {7}, .ids = ids}}},
            [=](Context& ctx, const Tensors& in) { return embedding(ctx, in[1], in[0], scale); },
            [=](const auto& in) { return reference_embedding(ids, in[0], scale); });
}

TEST(Embedding, AnyShapeOfIds) {
  Context ctx;
  const Tensor table = tensor(ctx, {3, 2}, {0, 1, 10, 11, 20, 21});
  const Tensor ids = Tensor::from<std::int32_t>(ctx, {2, 3}, std::vector<std::int32_t>{2, 0, 1, 1, 1, 2});
  const Tensor y = embedding(ctx, ids, table);
  EXPECT_EQ(y.shape().str(), "[2, 3, 2]");
  expect_near(y, {20, 21, 0, 1, 10, 11, 10, 11, 10, 11, 20, 21}, 0.0);
  expect_near(embedding(ctx, ids.column_block(0, 2), table), {20, 21, 0, 1, 10, 11, 10, 11}, 0.0);
  EXPECT_EQ(embedding(ctx, Tensor::empty(ctx, {0}, DType::int64), table).shape().str(), "[0, 2]");
  EXPECT_EQ(embedding(ctx, Tensor::zeros(ctx, {}, DType::int64), table).shape().str(), "[2]");
}

TEST(Embedding, ResultHasThePrecisionOfTheContext) {
  Context ctx({.precision = DType::bfloat16});
  const Tensor ids = Tensor::zeros(ctx, {1}, DType::int32);
  EXPECT_EQ(embedding(ctx, ids, tensor(ctx, {1, 1}, {1})).dtype(), DType::bfloat16);
  EXPECT_EQ(embedding(ctx, ids, Tensor::zeros(ctx, {1, 1}, DType::float16)).dtype(), DType::bfloat16);
}

// 1 + 1 + … in bfloat16 stops at 256; the sum must not.
TEST(Embedding, SumsGradientsInFloat32) {
  Context ctx({.precision = DType::bfloat16});
  Tensor table = Tensor::zeros(ctx, {2, 1}, DType::bfloat16);
  require_grad(table);
  const Tensor y = embedding(ctx, Tensor::zeros(ctx, {1024}, DType::int32), table);
  backward(ctx, y, Tensor::full(ctx, {1024, 1}, 1.0F, DType::bfloat16));
  expect_near(gradient(table), {1024, 0}, 0.0);
}

// As torch.nn.Embedding's padding_idx: looked up like any row, but it gets no gradient from that.
TEST(Embedding, PaddingLearnsNothing) {
  Context ctx;
  Tensor table = tensor(ctx, {3, 2}, {0, 1, 10, 11, 20, 21});
  require_grad(table);
  auto ids = [&](std::vector<std::int32_t> v) { return Tensor::from<std::int32_t>(ctx, {static_cast<std::int64_t>(v.size())}, v); };
  const Tensor y = embedding(ctx, ids({2, 1, 1, 0, 2}), table, 2.0F, {}, 1);
  expect_near(y, {40, 42, 20, 22, 20, 22, 0, 2, 40, 42}, 0.0);
  backward(ctx, y, tensor(ctx, {5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  expect_near(gradient(table), {14, 16, 0, 0, 20, 24}, 0.0);
  const Tensor only = embedding(ctx, ids({1, 1}), table, 1.0F, {}, 1);
  backward(ctx, only, Tensor::full(ctx, {2, 2}, 1.0F));
  expect_near(gradient(table), {14, 16, 0, 0, 20, 24}, 0.0);
}

TEST(Embedding, AddsToAGradientThatIsThere) {
  Context ctx;
  Tensor table = tensor(ctx, {2, 2}, {1, 2, 3, 4});
  require_grad(table);
  const Tensor ids = Tensor::from<std::int64_t>(ctx, {2}, std::vector<std::int64_t>{1, 1});
  for (int i = 0; i < 2; ++i) backward(ctx, embedding(ctx, ids, table, 2.0F), tensor(ctx, {2, 2}, {1, 2, 3, 4}));
  expect_near(gradient(table), {0, 0, 16, 24}, 0.0);
}

TEST(Embedding, SameBitsWithAnyNumberOfThreads) {
  std::vector<float> results[2];
  for (int run = 0; run < 2; ++run) {
    Context ctx({.threads = run == 0 ? 1 : 3});
    std::vector<std::int64_t> ids;
    std::vector<float> dy;
    for (std::uint64_t i = 0; i < 400; ++i) ids.push_back(RandomStream{1, 0, 0}.bits(i) % 7);
    for (std::uint64_t i = 0; i < 400 * 130; ++i) dy.push_back(RandomStream{2, 0, 0}.uniform(i));
    Tensor table = Tensor::zeros(ctx, {7, 130});
    require_grad(table);
    backward(ctx, embedding(ctx, Tensor::from<std::int64_t>(ctx, {400}, ids), table), tensor(ctx, {400, 130}, dy));
    results[run] = gradient(table).to_vector<float>();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Context ctx;
  const Tensor table = Tensor::zeros(ctx, {5, 2});
  auto ids = [&](std::vector<std::int64_t> v) { return Tensor::from<std::int64_t>(ctx, {static_cast<std::int64_t>(v.size())}, v); };
  expect_error([&] { embedding(ctx, ids({0, 4, 5, 9}), table); }, {"embedding", "id 5", "position 2", "5 rows"});
  expect_error([&] { embedding(ctx, ids({0, -1}), table); }, {"embedding", "id -1", "position 1", "5 rows"});
  expect_error([&] { embedding(ctx, {}, table); }, {"embedding", "ids is undefined"});
  expect_error([&] { embedding(ctx, ids({0}), {}); }, {"embedding", "table is undefined"});
  expect_error([&] { embedding(ctx, table, table); }, {"embedding", "ids", "float32"});
  expect_error([&] { embedding(ctx, ids({0}), ids({0})); }, {"embedding", "table", "int64"});
  expect_error([&] { embedding(ctx, ids({0}), Tensor::zeros(ctx, {5})); }, {"embedding", "table [5]", "[rows, d]"});
}

}  // namespace transformer::test
