// What several processes share out: samples, memory, the order of sums.
#include "train/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "train/distributed.h"
#include "train/pretended.h"
#include "train/shares.h"
#include "train/threads_together.h"
#include "transformer/ops/cross_entropy.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/linear.h"
#include "transformer/ops/random.h"
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

// A small model whose table of tokens is looked up twice and is the output matrix too.
struct Tied {
  Context ctx;
  ThreadsTogether& processes;
  Tensor table, weight;
  Adam adam;
  std::vector<std::int64_t> early = {}, late = {};  // what was exchanged before the last update's backward ended, and after it

  Tied(const std::shared_ptr<ThreadsTogether>& with, std::int64_t rows, std::int64_t cols)
      : ctx({.threads = 1, .seed = 5, .communicator = with}), processes(*with), table(random_normal(ctx, {rows, cols}, 0.0F, 0.3F)),
        weight(random_normal(ctx, {cols, cols}, 0.0F, 0.3F)), adam(ctx, std::vector<Tensor>{require_grad(weight), require_grad(table)}) {}

  // Tokens of its own for each rank and update; the last rank has none in the last one, so that its backward is left out.
  void train(std::int64_t tokens, bool overlapping) {
    constexpr int updates = 4;
    for (int update = 0; update < updates; ++update) {
      processes.sums.clear();
      adam.begin(ctx, 1e-2F);
      if (update + 1 < updates || processes.rank() + 1 < processes.size()) {
        const Tensor from = ids<std::int64_t>(tokens, update), to = ids<std::int32_t>(tokens, update + 7),
                     next = ids<std::int64_t>(tokens, update + 14);
        Tensor h = linear(ctx, add(ctx, embedding(ctx, from, table), embedding(ctx, to, table)), weight);
        backward(ctx, linear_cross_entropy(ctx, h, table, {}, next), {}, overlapping ? adam.exchanging() : nullptr);
      }
      early = std::exchange(processes.sums, {});
      adam.update(ctx, 1.0F);
      late = processes.sums;
      adam.zero_gradients();
    }
  }
  template <class T>
  Tensor ids(std::int64_t tokens, int salt) {
    std::vector<T> out;
    for (std::int64_t i = 0; i < tokens; ++i)
      out.push_back(static_cast<T>((i * i * 37 + salt * 101 + processes.rank() * 53) % table.dim(0)));
    return Tensor::from<T>(ctx, {tokens}, out);
  }
};

// The table's gradient is exchanged before lookups add to it, and its rows once more after it: the bits are those of one exchange at the
// end. Rows of 24 elements lie across pieces.
TEST(Shards, ATiedTableIsExchangedEarlyWithTheSameBits) {
  for (const int n : {2, 3}) {
    std::array<std::vector<std::vector<float>>, 2> tables;
    std::array<std::vector<std::int64_t>, 2> early, late;
    for (const bool overlapping : {false, true}) {
      tables[overlapping].resize(static_cast<std::size_t>(n));
      together(n, [&](const std::shared_ptr<ThreadsTogether>& processes) {
        Tied model(processes, 3000, 24);
        model.train(40, overlapping);
        tables[overlapping][static_cast<std::size_t>(processes->rank())] = model.table.to_vector<float>();
        if (processes->first()) early[overlapping] = model.early, late[overlapping] = model.late;
      });
      for (const auto& table : tables[overlapping]) EXPECT_EQ(table, tables[overlapping].front());
    }
    EXPECT_EQ(tables[true].front(), tables[false].front()) << n;
    const auto elements = [](const std::vector<std::int64_t>& sums) { return std::accumulate(sums.begin(), sums.end(), std::int64_t{0}); };
    EXPECT_EQ(elements(early[false]), 0);
    EXPECT_GT(elements(early[true]), 9 * elements(late[false]) / 10) << n;  // all but the last bucket
    EXPECT_GT(elements(late[true]), 0);
    EXPECT_LT(elements(early[true]) + elements(late[true]), 5 * elements(late[false]) / 4) << n;
  }
}

// Where tokens are most of the table, nothing is exchanged twice.
TEST(Shards, ATableOfWhichMostIsLookedUpIsExchangedOnce) {
  together(2, [&](const std::shared_ptr<ThreadsTogether>& processes) {
    Tied model(processes, 60, 24);
    model.train(200, true);
    EXPECT_EQ(std::accumulate(model.early.begin(), model.early.end(), std::int64_t{0}) +
                  std::accumulate(model.late.begin(), model.late.end(), std::int64_t{0}),
              model.adam.arena().size() / 2);
  });
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
