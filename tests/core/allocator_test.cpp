#include "support/op_check.h"

namespace transformer::test {
namespace {

struct CountingBackend final : Backend {
  int taken = 0;  // blocks, from the system
  std::byte* allocate(std::size_t bytes) override { return ++taken, new std::byte[bytes]; }
  void deallocate(std::byte* data, std::size_t) noexcept override { delete[] data; }
};

}  // namespace

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

// Batches of text have as many tokens as whole sentences make: each asks for other sizes than the one before.
TEST(Allocator, BatchesOfManySizesTakeNothingFromTheSystem) {
  const auto system = std::make_shared<CountingBackend>();
  const auto allocator = std::make_shared<Allocator>(system);
  const auto step = [&](std::size_t tokens) {
    std::vector<std::shared_ptr<std::byte>> live;
    for (int layer = 0; layer < 12; ++layer)
      for (const std::size_t width : {128U, 384U, 128U, 256U, 128U}) live.push_back(allocator->allocate(tokens * width * sizeof(float)));
  };
  constexpr std::size_t sizes[] = {4096, 2240, 3657, 3060, 4093, 2600, 3121};
  for (const std::size_t tokens : sizes) step(tokens);
  const int before = system->taken;
  for (int round = 0; round < 5; ++round)
    for (const std::size_t tokens : sizes) step(tokens);
  EXPECT_LE(system->taken - before, 12);  // of 2,100 requests
  const MemoryStats stats = allocator->stats();
  EXPECT_EQ(stats.peak_in_use, std::size_t{12 * 4096 * 1024 * sizeof(float)});
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
