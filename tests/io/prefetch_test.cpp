#include "io/shared/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

namespace transformer {
namespace {

TEST(Prefetch, InOrderAndOnce) {
  for (const std::size_t ahead : {0U, 1U, 3U, 100U}) {
    Prefetcher<std::int64_t> items([](std::int64_t i) { return i * i; }, 2, 50, ahead);
    for (std::int64_t i = 2; i < 50; ++i) EXPECT_EQ(items.next(), i * i);
    EXPECT_EQ(items.next(), std::nullopt);
    EXPECT_EQ(items.next(), std::nullopt);
  }
  Prefetcher<int> none([](std::int64_t) { return 1; }, 3, 3);
  EXPECT_EQ(none.next(), std::nullopt);
}

TEST(Prefetch, StaysWithinItsLead) {
  std::atomic<std::int64_t> made{0};
  Prefetcher<std::unique_ptr<std::int64_t>> items([&](std::int64_t i) { return ++made, std::make_unique<std::int64_t>(i); }, 0, 1000, 3);
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(**items.next(), i);
    EXPECT_LE(made, i + 1 + 3 + 1);
  }
  for (int wait = 0; made < 23 && wait < 1000; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(made, 23) << "it works while nobody asks";
}

TEST(Prefetch, ErrorsComeInTheirPlace) {
  Prefetcher<std::int64_t> items(
      [](std::int64_t i) {
    if (i == 3) throw std::runtime_error("item 3");
    return i;
      },
      0, 10, 8);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(items.next(), i);
  for (int again = 0; again < 2; ++again) {
    try {
      items.next();
      FAIL() << "no error";
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "item 3");
    }
  }
}

TEST(Prefetch, StopsWhenNobodyWantsTheRest) {
  std::atomic<std::int64_t> made{0};
  for (int round = 0; round < 50; ++round) {
    Prefetcher<std::int64_t> items([&](std::int64_t i) { return ++made, i; }, 0, std::int64_t{1} << 60, 2);
    if (round % 2 == 0) items.next();
  }
  EXPECT_LE(made, 50 * 4);
}

}  // namespace
}  // namespace transformer
