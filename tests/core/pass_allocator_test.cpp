#include "core/pass_allocator.h"

#include <algorithm>
#include <random>

#include "support/op_check.h"

namespace transformer::test {
namespace {

// Takes and lets go in an order that depends on the seed alone; the places that were given.
std::vector<std::byte*> made_pass(PassAllocator& allocator, unsigned seed, std::size_t most) {
  allocator.begin();
  std::mt19937 random(seed);
  struct Held {
    std::shared_ptr<std::byte> data;
    std::size_t size;
  };
  std::vector<Held> held;
  std::vector<std::byte*> places;
  for (int i = 0; i < 400; ++i) {
    if (!held.empty() && random() % 3 == 0) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
      continue;
    }
    const std::size_t size = 1 + random() % most;
    held.push_back({allocator.allocate(size), size});
    places.push_back(held.back().data.get());
    for (std::size_t k = 0; k + 1 < held.size(); ++k) {
      const std::byte *a = held[k].data.get(), *b = places.back();
      EXPECT_TRUE(a + held[k].size <= b || b + size <= a) << "two blocks share memory";
    }
  }
  return places;
}

TEST(PassAllocator, TheSameRequestsGetTheSamePlaces) {
  const auto allocator = std::make_shared<PassAllocator>(make_backend(Device::cpu()));
  for (unsigned seed = 1; seed <= 3; ++seed) made_pass(*allocator, seed, 1'000'000);  // the slab finds its size
  for (unsigned seed = 1; seed <= 3; ++seed) made_pass(*allocator, seed, 1'000'000);
  std::vector<std::vector<std::byte*>> before;
  for (unsigned seed = 1; seed <= 3; ++seed) before.push_back(made_pass(*allocator, seed, 1'000'000));
  for (unsigned seed = 3; seed >= 1; --seed) EXPECT_EQ(made_pass(*allocator, seed, 1'000'000), before[seed - 1]);
  EXPECT_EQ(allocator->stats().in_use, 0U);
}

TEST(PassAllocator, SlabsBecomeOne) {
  const auto allocator = std::make_shared<PassAllocator>(make_backend(Device::cpu()));
  constexpr std::size_t size = std::size_t{24} << 20;
  std::size_t reserved = 0;
  for (int pass = 0; pass < 4; ++pass) {
    allocator->begin();
    const auto a = allocator->allocate(size), b = allocator->allocate(size), c = allocator->allocate(size);
    if (pass > 1) {
      EXPECT_EQ(allocator->stats().reserved, reserved);
    }
    reserved = allocator->stats().reserved;
    if (pass > 0) {
      EXPECT_LT(std::max({a.get(), b.get(), c.get()}) - std::min({a.get(), b.get(), c.get()}), 3 * std::ptrdiff_t{size});
    }
  }
  EXPECT_LE(reserved, 3 * size + 3 * size / 8);
  allocator->release_kept();
  EXPECT_EQ(allocator->stats().reserved, 0U);
}

// Memory that has an end.
struct SmallBackend final : Backend {
  std::size_t left = 100 << 20;
  std::byte* allocate(std::size_t bytes) override {
    if (bytes > left) fail("memory", "out of memory");
    left -= bytes;
    return new std::byte[bytes];
  }
  void deallocate(std::byte* data, std::size_t bytes) noexcept override {
    left += bytes;
    delete[] data;
  }
};

TEST(PassAllocator, TakesWhatIsLeft) {
  const auto backend = std::make_shared<SmallBackend>();
  const auto allocator = std::make_shared<PassAllocator>(backend);
  constexpr std::size_t size = std::size_t{30} << 20;
  const auto a = allocator->allocate(size), b = allocator->allocate(size), c = allocator->allocate(size);  // no room for slabs of 32 MiB
  EXPECT_NE(c, nullptr);
  expect_error([&] { allocator->allocate(size); }, {"out of memory"});
}

TEST(Pass, NothingIsLeftInItsMemory) {
  Context ctx({.seed = 3});  // the device that the tests run on
  const Tensor x = tensor(ctx, {4}, {1, 2, 3, 4});
  for (int i = 0; i < 4; ++i) {
    ctx.random().begin_step(static_cast<std::uint32_t>(i));
    Pass pass(ctx);
    const Tensor y = Tensor::zeros(ctx, {1000});
    pass.end();
  }
  expect_near(x, {1, 2, 3, 4}, 0.0);
  const std::size_t in_use = ctx.memory().in_use;
  EXPECT_LE(in_use, 512U);
  EXPECT_GE(ctx.memory().peak_in_use, 4000U);
}

TEST(Pass, OneThatFailsLeavesTheContextAsItWas) {
  Context ctx;
  for (int i = 0; i < 3; ++i) {
    try {
      const Pass pass(ctx);
      const Tensor y = Tensor::zeros(ctx, {1000});
      fail("test", "in the middle");
    } catch (const Error&) {
    }
    const Tensor after = tensor(ctx, {2}, {5, 6});
    expect_near(after, {5, 6}, 0.0);
  }
}

}  // namespace
}  // namespace transformer::test
