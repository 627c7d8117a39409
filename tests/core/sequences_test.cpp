#include "transformer/core/sequences.h"

#include "backend/guarded/counts.h"
#include "support/op_check.h"
#include "transformer/ops/attention.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/random.h"

namespace transformer::test {

TEST(Sequences, WithGaps) {
  const Sequences packed(std::vector<std::int64_t>{2, 0, 3});
  EXPECT_TRUE(packed.packed());
  EXPECT_EQ(packed.total(), 5);
  EXPECT_EQ(packed.begin(2), 2);
  const Sequences gaps = Sequences::with_gaps({8, 0, 4}, {1, 3, 0}, 10);
  EXPECT_FALSE(gaps.packed());
  EXPECT_EQ(gaps.count(), 3);
  EXPECT_EQ(gaps.total(), 10);
  EXPECT_EQ(gaps.longest(), 3);
  EXPECT_EQ(gaps.begin(0), 8);
  EXPECT_EQ(gaps.length(1), 3);
  EXPECT_TRUE(Sequences::with_gaps({0, 2}, {2, 3}, 5).packed());
  EXPECT_FALSE(Sequences::with_gaps({0, 2}, {2, 3}, 6).packed());
  expect_error([] { Sequences::with_gaps({8}, {3}, 10); }, {"row 8", "3 tokens", "10 rows"});
  expect_error([] { Sequences::with_gaps({1, 2}, {3}, 10); }, {"2 begins", "1 lengths"});
}

TEST(Sequences, Scattered) {
  const Sequences s = Sequences::scattered({7, 0, 0, 3, 7}, {3, 0, 2}, 9);
  EXPECT_FALSE(s.packed());
  EXPECT_EQ(s.count(), 3);
  EXPECT_EQ(s.total(), 9);
  EXPECT_EQ(s.begin(2), 3);
  EXPECT_EQ(s.length(2), 2);
  EXPECT_EQ(s.longest(), 3);
  EXPECT_EQ(s.rows()[3], 3);
  EXPECT_TRUE(Sequences(std::vector<std::int64_t>{2}).rows().empty());
  expect_error([] { Sequences::scattered({7, 9}, {2}, 9); }, {"row 9", "of 9"});
  expect_error([] { Sequences::scattered({7}, {2}, 9); }, {"1 rows", "2 tokens"});
}

// Keys that lie anywhere give what they give one after the other.
TEST(Sequences, AttentionOverKeysWithGaps) {
  Context ctx({.seed = 2});
  for (std::int64_t queries : {1, 3, 20}) {
    const Tensor q = random_normal(ctx, {3 * queries, 12}), kv = random_normal(ctx, {200, 24});
    const std::vector<std::int64_t> begins{120, 3, 40}, lengths{77, 30, 65};
    std::vector<std::int64_t> from, to;
    for (std::size_t s = 0; s < 3; ++s)
      for (std::int64_t i = 0; i < lengths[s]; ++i) from.push_back(begins[s] + i), to.push_back(static_cast<std::int64_t>(to.size()));
    Tensor packed = Tensor::empty(ctx, {static_cast<std::int64_t>(from.size()), 24});
    copy_rows(ctx, kv, from, packed, to);
    AttentionOptions options{
        .queries = Sequences::uniform(3, queries), .keys = Sequences(lengths), .heads = 4, .kv_heads = 4, .head_dim = 3, .causal = true};
    const Tensor want = cross_attention(ctx, q, packed, options);
    options.keys = Sequences::with_gaps(begins, lengths, 200);
    const Tensor got = cross_attention(ctx, q, kv, options);
    EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>()) << queries;
    options.keys = Sequences::scattered(from, lengths, 200);
    EXPECT_EQ(cross_attention(ctx, q, kv, options).to_vector<float>(), want.to_vector<float>()) << queries;
  }
}

TEST(Sequences, OnTheDeviceTheyAreCopiedOnce) {
  Context ctx({.device = Device::guarded()});
  using Ints = std::vector<std::int32_t>;
  const Sequences packed(std::vector<std::int64_t>{2, 0, 3, 2}), copy = packed;
  const std::int64_t before = guarded_counts().uploads;
  const Tensor on = packed.on(ctx);  // begins, lengths, the longest first, positions
  EXPECT_EQ(on.to_vector<std::int32_t>(), (Ints{0, 2, 2, 5, 2, 0, 3, 2, 2, 0, 3, 1, 0, 1, 0, 1, 2, 0, 1}));
  EXPECT_EQ(packed.positions(ctx).to_vector<std::int32_t>(), (Ints{0, 1, 0, 1, 2, 0, 1}));
  EXPECT_TRUE(copy.on(ctx).same_memory(on));
  EXPECT_EQ(guarded_counts().uploads, before + 1);

  const Sequences scattered = Sequences::scattered({7, 3, 3}, {1, 2}, 9);
  EXPECT_EQ(scattered.on(ctx).to_vector<std::int32_t>(), (Ints{0, 1, 1, 2, 1, 0, 7, 3, 3}));
  expect_error([&] { scattered.positions(ctx); }, {"Sequences", "positions"});
  EXPECT_EQ(Sequences::with_gaps({4}, {2}, 9).on(ctx).to_vector<std::int32_t>(), (Ints{4, 2, 0}));
  EXPECT_EQ(Sequences().positions(ctx).numel(), 0);
}

TEST(Sequences, WhatGapsDoNotAllow) {
  Context ctx;
  Tensor q = Tensor::zeros(ctx, {1, 4}), kv = Tensor::zeros(ctx, {9, 8});
  require_grad(kv);
  AttentionOptions options{.queries = Sequences::uniform(1, 1), .keys = Sequences::with_gaps({2}, {3}, 9), .head_dim = 4};
  expect_error([&] { cross_attention(ctx, q, kv, options); }, {"gaps", "gradient"});
  options.queries = Sequences::with_gaps({0}, {1}, 2);
  expect_error([&] { cross_attention(ctx, q, kv, options); }, {"queries", "gaps"});
  Tensor rows = Tensor::zeros(ctx, {3, 4});
  expect_error([&] { copy_rows(ctx, q, std::vector<std::int64_t>{1}, rows, std::vector<std::int64_t>{0}); }, {"row 1", "[1, 4]"});
  expect_error([&] { copy_rows(ctx, q, std::vector<std::int64_t>{0}, rows, std::vector<std::int64_t>{0, 1}); }, {"1 rows", "2 written"});
  expect_error([&] { copy_rows(ctx, kv, std::vector<std::int64_t>{0}, rows, std::vector<std::int64_t>{0}); }, {"[9, 8]", "[3, 4]"});
}

}  // namespace transformer::test
