// What several processes share out: samples, memory, the order of sums.
#include "train/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "train/distributed.h"
#include "train/pretended.h"
#include "train/shares.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

std::vector<Tensor> leaves(Context& ctx) {
  std::vector<Tensor> out{Tensor::zeros(ctx, {300, 200}), Tensor::zeros(ctx, {7}), Tensor::zeros(ctx, {41, 1000})};
  for (Tensor& t : out) require_grad(t);
  return out;
}

TEST(Shards, TheOptimizersMemoryFallsAsTheNumberOfProcesses) {
  Context alone;
  const auto whole = static_cast<double>(Adam(alone, leaves(alone)).state_bytes());
  EXPECT_GE(whole, 8.0 * (300 * 200 + 7 + 41 * 1000));
  for (const int n : {2, 3, 4, 8}) {
    Context ctx({.communicator = std::make_shared<Pretended>(n - 1, n)});
    EXPECT_NEAR(static_cast<double>(Adam(ctx, leaves(ctx)).state_bytes()), whole / n, 8.0 * 64) << n;  // but for the alignment
  }
}

TEST(Shards, EveryElementBelongsToOneProcess) {
  constexpr int n = 3;
  std::vector<int> owners;
  for (int rank = 0; rank < n; ++rank) {
    Context ctx({.communicator = std::make_shared<Pretended>(rank, n)});
    Arena arena(ctx, leaves(ctx));
    const Shards shards(ctx, arena);
    owners.resize(static_cast<std::size_t>(arena.size()), 0);
    std::vector<int> places(static_cast<std::size_t>(shards.size()), 0);
    for (const Shards::Piece& piece : shards.pieces(0, arena.size()))
      for (std::int64_t i = 0; i < piece.size; ++i)
        ++owners[static_cast<std::size_t>(piece.begin + i)], ++places[static_cast<std::size_t>(piece.local + i)];
    EXPECT_EQ(std::count(places.begin(), places.end(), 1), std::ssize(places));
  }
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), std::ssize(owners));
}

TEST(Shares, PartsFollowEachOtherAndHaveAboutTheSameTokens) {
  const std::vector<std::int64_t> sizes{5, 40, 3, 3, 30, 8, 8, 12, 1, 22, 17, 9, 9, 14, 2, 27};
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (const std::int64_t parts : {1, 2, 3, 4, 7, 30}) {
    std::int64_t at = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const SampleRange range = range_of({part, parts}, sizes);
      EXPECT_EQ(range.begin, at);
      const std::int64_t tokens = std::accumulate(sizes.begin() + range.begin, sizes.begin() + range.end, std::int64_t{0});
      EXPECT_LE(std::abs(tokens - total / parts), 40) << parts;  // no more than the largest sample
      at = range.end;
    }
    EXPECT_EQ(at, std::ssize(sizes));
  }
}

TEST(Shares, EveryMicroBatchIsComputedOnceUnderTheSameNumber) {
  const auto alone = micro_batches(3, 14, 4, 6, {});
  EXPECT_EQ(alone.size(), 11U * 6U);
  for (const int n : {2, 3, 4}) {
    std::size_t count = 0;
    for (int rank = 0; rank < n; ++rank)
      for (const MicroBatch& m : micro_batches(3, 14, 4, 6, {.rank = rank, .size = n})) {
        ++count;
        EXPECT_EQ(
            std::count_if(alone.begin(), alone.end(),
                          [&](const MicroBatch& a) { return a.batch == m.batch && a.share.part == m.share.part && a.number == m.number; }),
            1);
      }
    EXPECT_EQ(count, alone.size());
  }
  EXPECT_EQ(usual_parts(4, 1), 4);
  EXPECT_EQ(usual_parts(4, 2), 2);
  EXPECT_EQ(usual_parts(4, 4), 1);
  EXPECT_EQ(usual_parts(1, 3), 1);
}

}  // namespace
}  // namespace transformer::test
