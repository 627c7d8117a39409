// Decoding token by token with a cache gives what the whole sequence at once gives.
#include "transformer/nn/cache.h"

#include <numeric>
#include <utility>

#include "support/op_check.h"
#include "transformer/nn/stack.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/random.h"

namespace transformer::test {
namespace {

StackConfig small_decoder() {
  return {.d_model = 16, .heads = 4, .d_ff = 20, .layers = 2, .causal = true, .positions = PositionKind::rotary};
}

// The rows of x of one sequence, from a token on.
Tensor tokens_of(Context& ctx, const Tensor& x, const Sequences& all, const std::vector<std::int64_t>& from,
                 const std::vector<std::int64_t>& count) {
  std::vector<std::int64_t> rows, to;
  for (std::int64_t s = 0; s < all.count(); ++s)
    for (std::int64_t i = 0; i < count[static_cast<std::size_t>(s)]; ++i) {
      rows.push_back(all.begin(s) + from[static_cast<std::size_t>(s)] + i);
      to.push_back(static_cast<std::int64_t>(to.size()));
    }
  Tensor y = Tensor::empty(ctx, {static_cast<std::int64_t>(rows.size()), x.cols()}, x.dtype());
  copy_rows(ctx, x, rows, y, to);
  return y;
}

// Sequences of 5, 40 and 23 tokens: first 3, 1 and 0 of them at once, then steps of 1, 2 and 1 while there are any.
void check_cached(const StackConfig& config, const std::string& what) {
  SCOPED_TRACE(what);
  Context ctx({.seed = 4});
  Stack stack(config);
  initialize(ctx, stack);
  const std::vector<std::int64_t> lengths{5, 40, 23};
  const Sequences all(lengths);
  const Tensor x = random_normal(ctx, {68, config.d_model});
  StackInput whole{.x = x, .sequences = all};
  if (config.cross_attention) {
    whole.memory = random_normal(ctx, {9, config.d_model});
    whole.memory_sequences = Sequences(std::vector<std::int64_t>{4, 2, 3});
  }
  const Tensor want = stack(ctx, whole);
  KVCache cache(3);
  std::vector<std::int64_t> done{0, 0, 0}, now{3, 1, 0};
  while (done != lengths) {
    StackInput part = whole;
    part.x = tokens_of(ctx, x, all, done, now);
    part.sequences = Sequences(now);
    part.cache = &cache;
    if (cache.has_memory()) part.memory = {};
    const Tensor got = stack(ctx, part);
    expect_near(got, detail::to_double(tokens_of(ctx, want, all, done, now)), 1e-5);
    EXPECT_FALSE(has_gradient(got));
    for (std::size_t s = 0; s < 3; ++s) {
      done[s] += now[s];
      EXPECT_EQ(cache.lengths()[s], done[s]);
      now[s] = std::min<std::int64_t>(s == 1 ? 2 : 1, lengths[s] - done[s]);
    }
  }
}

}  // namespace

TEST(KVCache, EqualsTheWholeSequence) {
  for (PositionKind kind : {PositionKind::none, PositionKind::relative, PositionKind::rotary, PositionKind::alibi})
    for (bool cross : {false, true}) {
      StackConfig config = small_decoder();
      config.positions = kind;
      config.cross_attention = cross;
      for (NormPlace place : {NormPlace::pre, NormPlace::post}) {
        config.norm_place = place;
        config.final_norm = place == NormPlace::pre;
        check_cached(config, fmt::format("positions {}, cross {}, norm {}", static_cast<int>(kind), cross, static_cast<int>(place)));
      }
    }
}

// Sources that come and go are read as by caches of their own, and what is there stays where it is until there is no room.
TEST(KVCache, MemoryOfSourcesThatComeLater) {
  StackConfig config = small_decoder();
  config.cross_attention = true;
  Context ctx({.seed = 5});
  Stack stack(config);
  initialize(ctx, stack);
  const NoGradients unrecorded(ctx);
  struct Source {
    std::int64_t begin, length;
    KVCache alone{1};
  };
  std::vector<Source> sources;
  KVCache cache(0);
  int moved = 0;
  for (int round = 0; round < 40; ++round) {
    if (sources.size() == 3) {
      sources.erase(sources.begin());
      cache.reorder(ctx, std::vector<std::int64_t>{1, 2});
    }
    const std::int64_t tokens = 3 + round % 5;
    std::vector<std::int64_t> read, begins, lengths;
    for (const Source& s : sources)
      for (std::int64_t i = 0; i < s.length; ++i) read.push_back(s.begin + i);
    const void* before = cache.has_memory() ? cache.layer(0).memory.raw() : nullptr;
    const bool move = cache.make_memory_room(ctx, tokens, read);
    std::int64_t begin = 0;
    for (Source& s : sources)
      if (move) s.begin = std::exchange(begin, begin + s.length);
    moved += move ? 1 : 0;
    sources.push_back({.begin = cache.memory_end(), .length = tokens});
    cache.add_rows(1);
    for (const Source& s : sources) begins.push_back(s.begin), lengths.push_back(s.length);

    const Tensor memory = random_normal(ctx, {tokens, config.d_model}), x = random_normal(ctx, {cache.rows(), config.d_model});
    const Tensor got = stack(ctx,
                             {.x = x,
                              .sequences = Sequences::uniform(cache.rows(), 1),
                              .memory = memory,
                              .memory_sequences = Sequences::with_gaps(begins, lengths, cache.memory_rows()),
                              .cache = &cache});
    EXPECT_EQ(move, before != cache.layer(0).memory.raw());
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const auto row = static_cast<std::int64_t>(s);
      const Tensor want = stack(ctx,
                                {.x = x.row_block(row, 1),
                                 .sequences = Sequences::uniform(1, 1),
                                 .memory = sources[s].alone.has_memory() ? Tensor() : memory,
                                 .memory_sequences = Sequences::uniform(1, sources[s].length),
                                 .cache = &sources[s].alone});
      expect_near(got.row_block(row, 1), detail::to_double(want), 1e-5);
    }
  }
  EXPECT_GT(moved, 2);
  EXPECT_LT(moved, 10);
}

TEST(KVCache, SharedHeadsWindowsAndParallelBlocks) {
  StackConfig config = small_decoder();
  config.kv_heads = 2;
  check_cached(config, "two key-value heads");
  config.kv_heads = 1;
  config.window = 3;
  check_cached(config, "one key-value head, window 3");
  config.window = 20;
  config.positions = PositionKind::alibi;
  check_cached(config, "window 20, ALiBi");
  config.order = BlockOrder::parallel;
  config.norm_place = NormPlace::pre;
  check_cached(config, "parallel");
}

// Rows are exchanged, doubled and left out; each goes on as if it had been alone.
TEST(KVCache, Reorder) {
  Context ctx({.seed = 6});
  Stack stack(small_decoder());
  initialize(ctx, stack);
  // Row r has seen the tokens histories[r], rows of `table`.
  const Tensor table = random_normal(ctx, {8, 16});
  std::vector<std::vector<std::int64_t>> histories{{}, {}, {}};
  KVCache cache(3);
  for (const std::vector<std::int64_t>& parents : std::vector<std::vector<std::int64_t>>{
           {0, 1, 2}, {2, 2, 0}, {0, 1, 1, 1, 2, 0}, {5, 4, 3, 2, 1, 0}, {0, 0, 0, 3}, {2, 3}, {1, 1, 1, 1, 0, 0, 0}, {6, 0}, {1}}) {
    cache.reorder(ctx, parents);
    std::vector<std::vector<std::int64_t>> next;
    std::vector<std::int64_t> tokens, lengths, flat;
    for (std::size_t i = 0; i < parents.size(); ++i) {
      next.push_back(histories[static_cast<std::size_t>(parents[i])]);
      for (int n = 0; n < 3; ++n)
        next.back().push_back(static_cast<std::int64_t>(i * 3 + next.back().size() * 5 + static_cast<std::size_t>(n)) % 8);
      tokens.insert(tokens.end(), next.back().end() - 3, next.back().end());
      lengths.push_back(static_cast<std::int64_t>(next.back().size()));
      flat.insert(flat.end(), next.back().begin(), next.back().end());
    }
    histories = next;
    auto look_up = [&](const std::vector<std::int64_t>& ids) {
      Tensor x = Tensor::empty(ctx, {static_cast<std::int64_t>(ids.size()), 16});
      std::vector<std::int64_t> to(ids.size());
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::int64_t>(i);
      copy_rows(ctx, table, ids, x, to);
      return x;
    };
    const auto rows = static_cast<std::int64_t>(parents.size());
    ASSERT_EQ(cache.rows(), rows);
    const Tensor got = stack(ctx, {.x = look_up(tokens), .sequences = Sequences::uniform(rows, 3), .cache = &cache});
    const Sequences all(lengths);
    const Tensor want = stack(ctx, {.x = look_up(flat), .sequences = all});
    std::vector<std::int64_t> from;
    for (std::int64_t n : lengths) from.push_back(n - 3);
    expect_near(got, detail::to_double(tokens_of(ctx, want, all, from, std::vector<std::int64_t>(parents.size(), 3))), 1e-5);
  }
}

TEST(KVCache, RefusesWhatDoesNotFit) {
  Context ctx;
  Stack stack(small_decoder());
  initialize(ctx, stack);
  KVCache cache(2);
  const Tensor x = Tensor::zeros(ctx, {3, 16});
  expect_error([&] { stack(ctx, {.x = x, .sequences = Sequences::uniform(3, 1), .cache = &cache}); }, {"3 sequences", "2 rows"});
  expect_error([&] { cache.reorder(ctx, std::vector<std::int64_t>{0, 2}); }, {"row 1", "row 2 of 2"});
  stack(ctx, {.x = Tensor::zeros(ctx, {2, 16}), .sequences = Sequences::uniform(2, 1), .cache = &cache});
  StackConfig config = small_decoder();
  config.layers = 3;
  Stack other(config);
  initialize(ctx, other);
  expect_error(
      [&] {
    other(ctx, {.x = Tensor::zeros(ctx, {2, 16}), .sequences = Sequences::uniform(2, 1), .cache = &cache});
      },
      {"3 layers", "one stack"});
}

}  // namespace transformer::test
