// The threads behind parallel_for: how many there are, and that none is lost or started anew.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "core/processors.h"
#include "core/shared/pool.h"
#include "support/temporary_folder.h"
#include "transformer/core/parallel.h"

namespace transformer::test {
namespace {

TEST(Threads, AreStartedOnce) {
  const auto regions = [](int threads, std::int64_t parts) {
    std::atomic<std::int64_t> sum{0};
    for (int i = 0; i < 50; ++i) parallel_for(threads, parts, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 50 * parts);
  };
  regions(8, 8);
  const std::int64_t started = parallel_stats().started;
  EXPECT_GE(started, 7);
  for (int round = 0; round < 20; ++round)
    for (const std::int64_t parts : {2, 8, 3, 5, 8}) regions(8, parts);  // teams of different size
  EXPECT_EQ(parallel_stats().started, started);
}

TEST(Threads, HaveSeatsOfTheirOwn) {
  std::array<std::atomic<int>, 4> taken{};
  std::atomic<bool> twice{false};
  for (int i = 0; i < 200; ++i) {
    parallel_for(4, 64, 1, [&](std::int64_t, std::int64_t) {
      const int seat = parallel_seat();
      ASSERT_GE(seat, 0);
      ASSERT_LT(seat, 4);
      auto& mine = taken[static_cast<std::size_t>(seat)];
      if (mine.fetch_add(1) != 0) twice = true;
      parallel_for(4, 8, 1, [](std::int64_t, std::int64_t) { EXPECT_EQ(parallel_seat(), 0); });  // alone: a call of one thread
      EXPECT_EQ(parallel_seat(), seat);
      mine.fetch_sub(1);
    });
  }
  EXPECT_FALSE(twice);
}

// Several programs' worth of callers, thousands of tiny calls, some of which fail.
TEST(Threads, ServeManyCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> wrong{0};
  for (int c = 0; c < 6; ++c) {
    callers.emplace_back([c, &wrong] {
      for (int i = 0; i < 2000; ++i) {
        std::vector<int> items(static_cast<std::size_t>(1 + (i * 7 + c) % 97), 0);
        const bool fails = i % 50 == 0;
        try {
          parallel_for(2 + (i + c) % 5, std::ssize(items), 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k) ++items[static_cast<std::size_t>(k)];
            if (fails && begin == 0) throw std::runtime_error("on purpose");
          });
          if (fails) ++wrong;
        } catch (const std::runtime_error&) {
          if (!fails) ++wrong;
        }
        if (std::accumulate(items.begin(), items.end(), 0) != std::ssize(items)) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

class Processors : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  int count(std::vector<int> allowed) const { return usable_processors(allowed, folder_.path()); }
  TemporaryFolder folder_;
};

TEST_F(Processors, AreCoresWhereTheSystemSaysSo) {
  EXPECT_EQ(count({0, 1, 2, 3}), 4);  // nothing is known
  for (const int i : {0, 1, 2, 3})
    write("sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list", i % 2 == 0 ? "0,2\n" : "1,3\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 2);
  EXPECT_EQ(count({0, 2}), 1);  // one core's two threads
  EXPECT_EQ(count({3}), 1);
}

TEST_F(Processors, AreNoMoreThanTheQuotaOfAContainer) {
  write("proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 4);
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 4);
  write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");  // a group above it
  EXPECT_EQ(count({0, 1, 2, 3}), 3);
  write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 1);
}

TEST_F(Processors, KnowTheFirstVersionOfControlGroups) {
  write("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 4);
  write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 2);
  write("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "odd\n");
  EXPECT_EQ(count({0, 1, 2, 3}), 4);
}

}  // namespace
}  // namespace transformer::test
