#include "transformer/core/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace transformer::test {
namespace {

using Range = std::pair<std::int64_t, std::int64_t>;

std::vector<Range> ranges_of(int threads, std::int64_t n, std::int64_t grain) {
  std::vector<Range> out;
  std::mutex mutex;
  parallel_for(threads, n, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    out.emplace_back(begin, end);
  });
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST(ParallelFor, CoversEveryItemOnceInRangesOfTheGrain) {
  for (const int threads : {1, 2, 3, 4, 7})
    for (const std::int64_t n : {1, 2, 3, 5, 16, 17, 100, 1001})
      for (const std::int64_t grain : {0, 1, 2, 5, 64, 5000}) {
        SCOPED_TRACE("threads " + std::to_string(threads) + ", n " + std::to_string(n) + ", grain " + std::to_string(grain));
        const std::vector<Range> ranges = ranges_of(threads, n, grain);
        ASSERT_FALSE(ranges.empty());
        std::int64_t at = 0, shortest = n, longest = 0;
        for (const auto& [begin, end] : ranges) {
          EXPECT_EQ(begin, at);  // neither a gap nor an overlap
          EXPECT_LT(begin, end);
          shortest = std::min(shortest, end - begin), longest = std::max(longest, end - begin);
          at = end;
        }
        EXPECT_EQ(at, n);
        EXPECT_LE(std::ssize(ranges), threads == 1 ? 1 : (n + std::max<std::int64_t>(grain, 1) - 1) / std::max<std::int64_t>(grain, 1));
        EXPECT_LE(longest - shortest, 1);  // equal, as far as that goes
        if (n <= grain) {
          EXPECT_EQ(ranges.size(), 1U);
        }
        EXPECT_EQ(ranges_of(threads, n, grain), ranges);  // the split depends on nothing else
      }
}

TEST(ParallelFor, NothingToDoCallsNothing) {
  for (const std::int64_t n : {0, -3}) EXPECT_TRUE(ranges_of(4, n, 1).empty());
}

TEST(ParallelFor, AnExceptionComesBackAndTheNextCallWorks) {
  for (const int threads : {1, 2, 4})
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(parallel_for(
                       threads, 100, 1,
                       [&](std::int64_t begin, std::int64_t end) {
        if (begin <= round * 5 && round * 5 < end) throw std::runtime_error("in a range");
                       }),
                   std::runtime_error);
      EXPECT_THROW(parallel_for(threads, 100, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("in all of them"); }),
                   std::runtime_error);
      std::atomic<std::int64_t> sum{0};
      parallel_for(threads, 100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      EXPECT_EQ(sum, 100);
    }
}

TEST(ParallelFor, NestedCallsRunOnTheirOwnThread) {
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> elsewhere{0};
  parallel_for(4, 8, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto here = std::this_thread::get_id();
      parallel_for(4, 50, 1, [&](std::int64_t b, std::int64_t e) {
        sum += e - b;
        if (std::this_thread::get_id() != here) ++elsewhere;
      });
    }
  });
  EXPECT_EQ(sum, 400);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ParallelFor, ManyThreadsMayCallItAtOnce) {
  std::vector<std::thread> callers;
  std::vector<std::int64_t> sums(6, 0);
  for (std::size_t caller = 0; caller < sums.size(); ++caller)
    callers.emplace_back([&sums, caller] {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::int64_t> items(997, 0);
        parallel_for(3, std::ssize(items), 10, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) items[static_cast<std::size_t>(i)] += i;
        });
        for (const std::int64_t item : items) sums[caller] += item;
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 50 * 997 * 996 / 2);
}

// The first two of many items are long: neither waits for the other. Here each waits until both have begun.
TEST(ParallelEach, LongItemsRunSideBySideAmongManyShortOnes) {
  std::vector<std::atomic<int>> runs(71);
  std::atomic<int> begun = 0;
  std::atomic<bool> met = true;
  parallel_each(2, std::ssize(runs), [&](std::int64_t i) {
    ++runs[static_cast<std::size_t>(i)];
    if (i > 1) return;
    ++begun;
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (begun < 2 && met) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > late) met = false;
    }
  });
  EXPECT_TRUE(met);
  for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
}

TEST(ParallelEach, MoreItemsThanPiecesAndAnException) {
  std::vector<std::atomic<int>> runs(10001);
  parallel_each(3, std::ssize(runs), [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  for (const std::atomic<int>& run : runs) ASSERT_EQ(run, 1);
  EXPECT_THROW(parallel_each(
                   2, 50,
                   [](std::int64_t i) {
    if (i == 37) throw std::runtime_error("37");
                   }),
               std::runtime_error);
}

TEST(ParallelFor, WhatTheBodiesWroteIsSeenAfterwards) {
  std::vector<int> items(100000, 0);
  for (int round = 1; round <= 20; ++round) {
    parallel_for(4, std::ssize(items), 1000, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++items[static_cast<std::size_t>(i)];
    });
    ASSERT_EQ(std::set<int>(items.begin(), items.end()), std::set<int>{round});
  }
}

}  // namespace transformer::test
