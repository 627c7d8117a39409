#include "transformer/autograd/autograd.h"

#include <map>
#include <thread>

#include "support/change.h"
#include "support/op_check.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/shape.h"

namespace transformer::test {

TEST(Autograd, AGradientSharedByTwoPathsIsNotCorrupted) {
  Context ctx;
  Tensor x = tensor(ctx, {2}, {3, 5});
  require_grad(x);
  // y = (x + x) · x + x: the gradient of the outer sum is handed to both sides before one of them adds to it.
  const Tensor y = add(ctx, mul(ctx, add(ctx, x, x), x), x);
  backward(ctx, y, tensor(ctx, {2}, {1, 1}));
  expect_near(gradient(x), {4 * 3 + 1, 4 * 5 + 1}, 1e-6);
}

// A gradient may arrive as a column block of something wider; ops see it dense.
TEST(Autograd, AStridedGradientGivesTheSameAsADenseOne) {
  Context ctx;
  std::vector<float> values(3 * 2 * 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor block = tensor(ctx, {3, 2, 5}, values).column_block(1, 2);
  const Tensor b = tensor(ctx, {3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  std::vector<std::vector<double>> got;
  for (const Tensor& dy : {block, Tensor::from<float>(ctx, {3, 2, 2}, block.to_vector<float>())}) {
    Tensor a = tensor(ctx, {2, 2}, {1, 2, 3, 4});  // broadcast over the batch: its gradient is summed back
    require_grad(a);
    backward(ctx, matmul(ctx, a, b), dy);
    got.push_back(detail::to_double(gradient(a)));
  }
  EXPECT_EQ(got[0], got[1]);
}

TEST(Autograd, GradientsAddUpOverCallsAndCanBeCleared) {
  Context ctx;
  Tensor x = tensor(ctx, {1}, {2});
  require_grad(x);
  for (int i = 1; i <= 3; ++i) {
    backward(ctx, scale(ctx, x, 5.0F));
    expect_near(gradient(x), {5.0 * i}, 0.0);
  }
  clear_gradient(x);
  EXPECT_FALSE(gradient(x).defined());
}

TEST(Autograd, NothingIsRecordedWithoutNeed) {
  Context ctx;
  Tensor x = tensor(ctx, {1}, {2});
  EXPECT_FALSE(has_gradient(scale(ctx, x, 2.0F)));
  require_grad(x);
  EXPECT_TRUE(has_gradient(scale(ctx, x, 2.0F)));
  const NoGradients no_gradients(ctx);
  EXPECT_FALSE(has_gradient(scale(ctx, x, 2.0F)));
}

TEST(Autograd, BackwardFreesWhatForwardKept) {
  Context ctx;
  Tensor x = Tensor::full(ctx, {1000, 100}, 0.1F), w = Tensor::full(ctx, {100, 100}, 0.1F);
  require_grad(w);
  const std::size_t before = ctx.allocator().stats().in_use;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = linear(ctx, y, w, {}, Activation::gelu);
  EXPECT_GT(ctx.allocator().stats().in_use, before + 10 * 1000 * 100 * 4);
  backward(ctx, y, Tensor::full(ctx, {1000, 100}, 1.0F));
  y = Tensor();
  EXPECT_LE(ctx.allocator().stats().in_use, before + 100 * 100 * 4 + 4096);  // the gradient of w
}

TEST(Autograd, AVeryLongChainIsFreedWithoutRecursion) {
  Context ctx;
  Tensor x = tensor(ctx, {1}, {1});
  require_grad(x);
  for (bool run : {false, true}) {
    Tensor y = x;
    for (int i = 0; i < 200'000; ++i) y = scale(ctx, y, 1.0F);
    if (run) backward(ctx, y);
  }
  expect_near(gradient(x), {1}, 0.0);
}

// One context serves one thread at a time, but they may take turns.
TEST(Autograd, ATapeRecordedOnOneThreadRunsBackOnAnother) {
  Context ctx;
  Tensor x = tensor(ctx, {2}, {3, 5});
  require_grad(x);
  Tensor y;
  std::thread([&] { y = mul(ctx, mul(ctx, x, x), x); }).join();
  std::thread([&] { backward(ctx, y, tensor(ctx, {2}, {1, 1})); }).join();
  expect_near(gradient(x), {3 * 3 * 3, 3 * 5 * 5}, 1e-5);
}

TEST(Autograd, ATapeMayGoOnOnAnotherThread) {
  Context ctx;
  Tensor x = tensor(ctx, {2}, {3, 5});
  require_grad(x);
  // a = x² comes late on this thread, b = a · x first on a new one, y = a + b again here: a waits for what comes from b.
  Tensor unused = x;
  for (int i = 0; i < 10; ++i) unused = scale(ctx, unused, 1.0F);
  const Tensor a = mul(ctx, x, x);
  Tensor b;
  std::thread([&] { b = mul(ctx, a, x); }).join();
  backward(ctx, add(ctx, a, b), tensor(ctx, {2}, {1, 1}));
  expect_near(gradient(x), {2 * 3 + 3 * 3 * 3, 2 * 5 + 3 * 5 * 5}, 1e-4);
}

TEST(Autograd, ThreadsWithContextsOfTheirOwnDoNotDisturbEachOther) {
  std::vector<std::vector<double>> got(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&got, i] {
      Context ctx({.threads = 2});
      for (int round = 0; round < 20; ++round) {
        Tensor w = Tensor::full(ctx, {64, 64}, 0.01F);
        require_grad(w);
        Tensor y = Tensor::full(ctx, {64, 64}, static_cast<float>(i + 1));
        for (int layer = 0; layer < 4; ++layer) y = linear(ctx, y, w, {}, Activation::relu);
        backward(ctx, y, Tensor::full(ctx, {64, 64}, 1.0F));
        got[i] = detail::to_double(gradient(w));
      }
    });
  for (std::thread& thread : threads) thread.join();
  // y is linear in what went in: so is the gradient.
  for (std::size_t i = 1; i < got.size(); ++i)
    for (std::size_t k = 0; k < got[i].size(); ++k)
      ASSERT_NEAR(got[i][k] / static_cast<double>(i + 1), got[0][k], 1e-4 * std::abs(got[0][k]));
}

// What a watch is told of a table that is looked up twice and is the output matrix too, and of one that is looked up only.
TEST(Autograd, SaysWhenOnlyRowsAreLeft) {
  struct Watch final : GradientWatch {
    std::map<const Node*, std::string> names;
    std::vector<std::string> told;
    void only_rows_left(Context&, Node& leaf, const std::vector<Tensor>& ids) override {
      told.push_back(fmt::format("{}: {} lookups left", names.at(&leaf), ids.size()));
    }
    void before_rows(Context&, Node& leaf) override { told.push_back(names.at(&leaf) + ": rows"); }
    void finished(Context&, Node& leaf) override { told.push_back(names.at(&leaf) + ": finished"); }
  } watch;
  Context ctx;
  Tensor table = Tensor::full(ctx, {5, 2}, 0.5F), places = Tensor::full(ctx, {5, 2}, 0.1F), w = Tensor::full(ctx, {2, 2}, 0.3F);
  for (Tensor* t : {&table, &places, &w}) require_grad(*t);
  watch.names = {{table.node().get(), "table"}, {places.node().get(), "places"}, {w.node().get(), "w"}};
  const Tensor ids = Tensor::from<std::int64_t>(ctx, {2}, {1, 3});
  const Tensor first = embedding(ctx, ids, table), second = embedding(ctx, ids, places), third = embedding(ctx, ids, table);
  const Tensor y = linear(ctx, linear(ctx, add(ctx, add(ctx, first, second), third), w), table);
  backward(ctx, y, Tensor::full(ctx, {2, 5}, 1.0F), &watch);
  EXPECT_EQ(watch.told,
            (std::vector<std::string>{"table: 2 lookups left", "w: finished", "table: rows", "places: rows", "places: finished",
                                      "table: rows", "table: finished"}));
}

TEST(Autograd, SaysWhyItCannotRun) {
  Context ctx;
  Tensor x = tensor(ctx, {2}, {1, 2});
  expect_error([&] { backward(ctx, x); }, {"backward", "[2]"});
  require_grad(x);
  const Tensor y = scale(ctx, x, 2.0F);
  expect_error([&] { backward(ctx, y); }, {"backward", "one element", "[2]"});
  expect_error([&] { backward(ctx, y, tensor(ctx, {3}, {1, 1, 1})); }, {"backward", "[3]", "[2]"});
  backward(ctx, y, tensor(ctx, {2}, {1, 1}));
  expect_error([&] { backward(ctx, y, tensor(ctx, {2}, {1, 1})); }, {"backward", "already run"});
  Tensor ids = Tensor::from<std::int64_t>(ctx, {1}, {1});
  expect_error([&] { require_grad(ids); }, {"require_grad", "floating-point"});
}

// The bfloat16 copy of a weight follows every change of the weight.
TEST(Autograd, LowPrecisionCopiesAreNeverStale) {
  Context ctx({.precision = DType::bfloat16});
  Tensor w = tensor(ctx, {1, 1}, {2});
  require_grad(w);
  const Tensor x = cast(ctx, tensor(ctx, {1, 1}, {1}), DType::bfloat16);
  expect_near(linear(ctx, x, w), {2}, 0.0);
  const std::byte* copy = in_precision(ctx, w, DType::bfloat16).raw();
  EXPECT_EQ(in_precision(ctx, w, DType::bfloat16).raw(), copy);
  change(ctx, w, [](std::vector<float>& values) { values[0] = 3.0F; });
  expect_near(linear(ctx, x, w), {3}, 0.0);
}

}  // namespace transformer::test
