#include "support/op_check.h"

namespace transformer::test {

TEST(Allocator, HandsFreedBlocksOutAgain) {
  Context ctx({.device = Device::cpu()});
  const std::byte* first = Tensor::zeros(ctx, {1000}).raw();
  EXPECT_EQ(Tensor::zeros(ctx, {1000}).raw(), first);
  EXPECT_EQ(ctx.allocator().stats().in_use, 0U);
  ctx.allocator().release_kept();
  EXPECT_EQ(ctx.allocator().stats().reserved, 0U);
}

TEST(Allocator, ASteadyLoopTakesNothingFromTheSystem) {
  Context ctx({.device = Device::cpu()});
  auto step = [&] {
    std::vector<Tensor> live;
    for (std::int64_t i = 1; i <= 20; ++i) live.push_back(Tensor::empty(ctx, {i * 100'000}));
  };
  step();
  const std::size_t reserved = ctx.allocator().stats().reserved;
  ctx.allocator().reset_peak();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(ctx.allocator().stats().peak_reserved, reserved);
}

TEST(Allocator, SizesThatNoLongerOccurDoNotPileUp) {
  Context ctx({.device = Device::cpu()});
  for (std::int64_t i = 1; i <= 40; ++i) Tensor::empty(ctx, {i * 1'000'000});  // each larger than the one before
  const MemoryStats stats = ctx.allocator().stats();
  EXPECT_LE(stats.peak_reserved, stats.peak_in_use + stats.peak_in_use / 8 + (std::size_t{32} << 20));
}

TEST(Allocator, ATensorOutlivesItsContext) {
  Tensor t;
  {
    Context ctx({.device = Device::cpu()});
    t = tensor(ctx, {2}, {1, 2});
  }
  expect_near(t, {1, 2}, 0.0);
}

TEST(Allocator, MoreThanTheMachineHasIsAnError) {
  Context ctx({.device = Device::cpu()});
  expect_error([&] { Tensor::empty(ctx, {std::int64_t{1} << 52}); }, {"out of memory"});
  expect_error([&] { Tensor::empty(ctx, {std::int64_t{1} << 40, std::int64_t{1} << 40}); }, {"larger than memory"});
  expect_error([&] { Tensor::empty(ctx, {2, -1}); }, {"[2, -1]", "negative"});
}

}  // namespace transformer::test
