#include "transformer/text/parallel.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "support/op_check.h"
#include "support/text_files.h"
#include "support/tiny_tokenizer.h"
#include "transformer/core/random.h"

namespace transformer {
namespace {

using test::lines_from;
using test::TextFolder;
using Ids = std::vector<std::int32_t>;

Ids copy(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

TokenizerPtr letters() { return build_whitespace(lines_from({"a b c d e f g h 나는 간다"})); }  // a = 4, b = 5, …, 나는 = 12

PairSource pairs_from(std::vector<std::pair<std::string, std::string>> pairs) {
  return [pairs = std::move(pairs), at = std::size_t{0}](std::string& source, std::string& target) mutable {
    if (at == pairs.size()) return false;
    std::tie(source, target) = pairs[at++];
    return true;
  };
}

PairDataset load(const PairSource& pairs, const PairFilter& filter = {}) {
  PairReport report;
  return PairDataset::load(pairs, *letters(), *letters(), filter, report);
}

TEST(Parallel, FromTwoFiles) {
  const TextFolder folder;
  const TokenizerPtr tokenizer = letters();
  PairReport report;
  const PairDataset data = PairDataset::load(folder.write("source", "a b\r\nc\r\n"), folder.write_gzip("target", "나는 간다\nd \xFF"),
                                             *tokenizer, *tokenizer, {}, report);
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(copy(data.source(0)), Ids({4, 5}));
  EXPECT_EQ(copy(data.source(1)), Ids({6}));
  EXPECT_EQ(copy(data.target(0)), Ids({12, 13}));
  EXPECT_EQ(copy(data.target(1)), Ids({7, 1}));
  EXPECT_EQ(data.source_tokens(), 3);
  EXPECT_EQ(data.target_tokens(), 4);
  EXPECT_EQ(report.total, 2);
  EXPECT_EQ(report.kept(), 2);
  EXPECT_EQ(report.invalid_utf8, 1);
  test::expect_error([&] { data.source(2); }, {"no text 2", "have 2"});
  test::expect_error([&] { data.target(-1); }, {"no text -1"});
}

TEST(Parallel, FromOneFileWithTabs) {
  const TextFolder folder;
  const PairDataset data = load(read_tsv(folder.write("pairs.tsv", "a\tb c\nd\te\tlicence\tmore\nf\tg")));
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(copy(data.target(0)), Ids({5, 6}));
  EXPECT_EQ(copy(data.source(1)), Ids({7}));
  EXPECT_EQ(copy(data.target(1)), Ids({8}));
  EXPECT_EQ(copy(data.target(2)), Ids({10}));
  test::expect_error([&] { load(read_tsv(folder.write("bad.tsv", "a\tb\nc d\n"))); }, {"bad.tsv", "line 2", "tab"});
  const auto first = [](const PairSource& pairs) {
    std::string source, target;
    return pairs(source, target) ? source + "|" + target : "";
  };
  EXPECT_EQ(first(read_tsv(folder.write("a.csv", "source,target\n\"a, b\",\"c\"\"\"\n"))), "a, b|c\"");
  EXPECT_EQ(first(read_tsv(folder.write("a.tsv", "en\tko\na\tb\n"))), "a|b");
  EXPECT_EQ(first(read_tsv(folder.write("a.tsv", "en\tko\na\tb\n"), Header::no)), "en|ko");
  EXPECT_EQ(first(read_tsv(folder.write("a.tsv", "\"Go.\"\t\"Geh!\" rief er\n"), Header::no)), "\"Go.\"|\"Geh!\" rief er");
  EXPECT_EQ(first(read_tsv(folder.write("a.tsv", "x\ty\na\tb\n"), Header::yes)), "a|b");
  test::expect_error([&] { load(read_tsv(folder.write("empty.tsv", ""))); }, {"empty.tsv", "empty"});
}

TEST(Parallel, LinesToTrainTokenizersOn) {
  const auto lines = [](PairSide side) { return test::all_lines(lines_of(pairs_from({{"a", "b"}, {"c", "d"}}), side)); };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines(PairSide::source), Lines({"a", "c"}));
  EXPECT_EQ(lines(PairSide::target), Lines({"b", "d"}));
  EXPECT_EQ(lines(PairSide::both), Lines({"a", "b", "c", "d"}));
}

TEST(Parallel, WhatIsLeftOut) {
  const auto pairs = [] {
    return pairs_from({{"a", "b"}, {"", "b"}, {"a", " \t"}, {"a a a a", "b b b b"}, {"a", "b b b b b"}, {"a", "b b b"}, {"a a a", "b b"}});
  };
  const TokenizerPtr tokenizer = letters();
  PairReport report;
  PairDataset data = PairDataset::load(pairs(), *tokenizer, *tokenizer, {.max_length = 4, .max_ratio = 2}, report);
  EXPECT_EQ(report.total, 7);
  EXPECT_EQ(report.empty, 2);
  EXPECT_EQ(report.too_long, 1);
  EXPECT_EQ(report.unbalanced, 1);
  EXPECT_EQ(report.kept(), 3);
  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.source(1).size(), 4U);
  EXPECT_EQ(data.source(2).size(), 3U);

  EXPECT_EQ(PairDataset::load(pairs(), *tokenizer, *tokenizer, {}, report).size(), 5);
  EXPECT_EQ(PairDataset::load(pairs(), *tokenizer, *tokenizer, {.max_ratio = 3}, report).size(), 4);
  EXPECT_EQ(PairDataset::load(pairs(), *tokenizer, *tokenizer, {.max_length = 1}, report).size(), 1);
  test::expect_error(
      [&] {
    PairDataset::load(pairs_from({{"", "b"}, {"a a", "b b"}}), *tokenizer, *tokenizer, {.max_length = 1}, report);
      },
      {"none of 2 pairs", "1 have an empty side", "1 are too long"});
  EXPECT_EQ(report.total, 2) << "the report is there even when nothing else is";
  test::expect_error([&] { load(pairs_from({})); }, {"no pairs"});
  test::expect_error([&] { load(pairs(), {.max_length = -1}); }, {"max_length is -1"});
  test::expect_error([&] { load(pairs(), {.max_ratio = 0.5}); }, {"max_ratio is 0.5"});
}

TEST(Parallel, FilesThatDoNotBelongTogether) {
  const TextFolder folder;
  const std::string three = folder.write("three", "a\nb\nc\n"), five = folder.write("five", "a\nb\nc\nd\ne"),
                    none = folder.write("none", "");
  test::expect_error([&] { load(read_pairs(three, five)); }, {three + " has 3 lines", five + " has 5"});
  test::expect_error([&] { load(read_pairs(five, three)); }, {three + " has 3", five + " has 5 lines"});
  test::expect_error([&] { load(read_pairs(three, none)); }, {three + " has 3 lines", none + " has 0"});
  test::expect_error([&] { load(read_pairs(none, none)); }, {none, "empty"});
  test::expect_error([&] { load(read_pairs(three, folder / "missing")); }, {"missing", "No such file"});
  test::expect_error([&] { read_pairs("-", "-"); }, {"standard input"});
}

TEST(Parallel, ManyPairsOnAnyNumberOfThreads) {
  const TokenizerPtr tokenizer = letters();
  std::vector<std::pair<std::string, std::string>> pairs;
  const char* words[] = {"a", "b c", "d d e", "나는 간다"};
  for (std::size_t i = 0; i < 20000; ++i) pairs.emplace_back(words[i % 4], words[i / 4 % 4]);
  pairs[5].first = std::string(1 << 20, 'x');
  PairReport report;
  const PairDataset one = PairDataset::load(pairs_from(pairs), *tokenizer, *tokenizer, {}, report, 1);
  const PairDataset three = PairDataset::load(pairs_from(pairs), *tokenizer, *tokenizer, {}, report, 3);
  ASSERT_EQ(one.size(), 20000);
  EXPECT_EQ(one.fingerprint(), three.fingerprint());
  for (std::int64_t i = 6; i < one.size(); ++i)
    ASSERT_EQ(copy(three.source(i)), tokenizer->encode(pairs[static_cast<std::size_t>(i)].first)) << i;
}

TEST(Parallel, TheFingerprintSeesEveryChange) {
  const auto print = [](std::vector<std::pair<std::string, std::string>> pairs) {
    return load(pairs_from(std::move(pairs))).fingerprint();
  };
  EXPECT_EQ(print({{"a b", "c"}, {"d", "e f"}}), print({{"a b", "c"}, {"d", "e f"}}));
  EXPECT_EQ(print({{"a b", "c"}, {"d", "e f"}}), 7470675396463362999U) << "the same on every machine";
  const std::set<std::uint64_t> prints = {print({{"a b", "c"}, {"d", "e f"}}), print({{"a", "c"}, {"b d", "e f"}}),
                                          print({{"d", "e f"}, {"a b", "c"}}), print({{"a b", "c"}}),
                                          print({{"a b", "c"}, {"d", "e g"}}), print({{"a b", "c e"}, {"d", "f"}}),
                                          print({{"c", "a b"}, {"e f", "d"}}), print({{"a b", "c"}, {"d", "e f"}, {"a", "a"}})};
  EXPECT_EQ(prints.size(), 8U);
}

// n pairs of made-up lengths, a few of them long.
PairDataset made_up(std::int64_t n) {
  const TokenizerPtr tokenizer = letters();
  PairDataset data(*tokenizer, *tokenizer);
  const RandomStream random{7, 0, 0};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) {
    const std::size_t source = 1 + random.bits(2 * i) % (i % 50 == 0 ? 90 : 30);
    data.add(Ids(source, 4), Ids(source / 2 + random.bits(2 * i + 1) % 10 + 1, 5));
  }
  return data;
}

TEST(PlanEpoch, EveryPairOnceWithinTheLimits) {
  for (const std::int64_t n : {1, 2, 17, 500, 20000}) {
    const PairDataset data = made_up(n);
    for (const std::int64_t max_tokens : {100, 4096}) {
      const auto batches = plan_epoch(data, max_tokens, 1, 0);
      std::vector<bool> seen(static_cast<std::size_t>(n));
      for (const auto& batch : batches) {
        ASSERT_FALSE(batch.empty());
        std::int64_t source = 0, target = 0;
        for (const std::int64_t i : batch) {
          EXPECT_FALSE(seen[static_cast<std::size_t>(i)]);
          seen[static_cast<std::size_t>(i)] = true;
          source += std::ssize(data.source(i)) + 1;
          target += std::ssize(data.target(i)) + 1;
        }
        EXPECT_LE(std::max(source, target), max_tokens);
      }
      EXPECT_EQ(std::count(seen.begin(), seen.end(), true), n);
      const std::int64_t tokens = std::max(data.source_tokens(), data.target_tokens()) + n;
      EXPECT_LE(std::ssize(batches), 2 * tokens / max_tokens + 1) << "batches are not much smaller than they may be";
    }
  }
}

TEST(PlanEpoch, APureFunctionOfSeedAndEpoch) {
  const PairDataset data = made_up(5000);
  const auto plan = plan_epoch(data, 512, 3, 2);
  EXPECT_EQ(plan, plan_epoch(data, 512, 3, 2));
  EXPECT_NE(plan, plan_epoch(data, 512, 3, 3));
  EXPECT_NE(plan, plan_epoch(data, 512, 4, 2));
  EXPECT_EQ(plan_epoch(made_up(6), 60, 1, 0), plan_epoch(made_up(6), 60, 1, 0));

  // The same on every machine.
  std::uint64_t hash = 0;
  for (const auto& batch : plan) {
    for (const std::int64_t i : batch) hash = hash * 31 + static_cast<std::uint64_t>(i) + 1;
    hash = hash * 31;
  }
  EXPECT_EQ(hash, 17404178973433538884U);
}

TEST(PlanEpoch, SimilarLengthsTogetherInRandomOrder) {
  const PairDataset data = made_up(20000);
  const auto batches = plan_epoch(data, 1000, 1, 0);
  double spread = 0.0;
  std::int64_t rising = 0, last = 0;
  for (const auto& batch : batches) {
    const auto by_length = [&](std::int64_t i, std::int64_t j) { return data.target(i).size() < data.target(j).size(); };
    const auto [low, high] = std::minmax_element(batch.begin(), batch.end(), by_length);
    spread += static_cast<double>(data.target(*high).size() - data.target(*low).size());
    rising += std::ssize(data.target(*low)) > last ? 1 : 0;
    last = std::ssize(data.target(*low));
  }
  const auto count = static_cast<double>(batches.size());
  EXPECT_LT(spread / count, 2.0) << "lengths go from 1 to over 50";
  EXPECT_GT(static_cast<double>(rising) / count, 0.35);
  EXPECT_LT(static_cast<double>(rising) / count, 0.65);

  // Where a pair comes in the epoch has nothing to do with its place in the data.
  double mean = 0.0, position = 0.0;
  for (const auto& batch : batches)
    for (const std::int64_t i : batch)
      if (++position <= 2000) mean += static_cast<double>(i) / 2000;
  EXPECT_NEAR(mean, 10000, 600);
}

TEST(PlanEpoch, Refusals) {
  const TokenizerPtr tokenizer = letters();
  PairDataset data(*tokenizer, *tokenizer);
  EXPECT_TRUE(plan_epoch(data, 10, 0, 0).empty());
  data.add(Ids(3, 4), Ids(10, 4));
  test::expect_error([&] { plan_epoch(data, 10, 0, 0); }, {"plan_epoch", "pair 0", "11 tokens", "max_tokens 10", "max_length"});
  EXPECT_EQ(plan_epoch(data, 11, 0, 0).size(), 1U);
  test::expect_error([&] { plan_epoch(data, 0, 0, 0); }, {"max_tokens is 0"});
  test::expect_error([&] { plan_epoch(data, 10, 0, -1); }, {"epoch -1"});
}

TEST(MakeBatch, SentenceAfterSentence) {
  const PairDataset data = load(pairs_from({{"a b", "c"}, {"d", "e f g"}, {"h", "h"}}));
  const std::vector<std::int64_t> indices = {1, 0};
  const PairIds batch = make_batch(data, indices);
  EXPECT_EQ(batch.source, Ids({7, 3, 4, 5, 3}));
  EXPECT_EQ(batch.target, Ids({2, 8, 9, 10, 2, 6}));
  EXPECT_EQ(batch.labels, Ids({8, 9, 10, 3, 6, 3}));
  EXPECT_EQ(batch.source_lengths, std::vector<std::int64_t>({2, 3}));
  EXPECT_EQ(batch.target_lengths, std::vector<std::int64_t>({4, 2}));
  EXPECT_TRUE(make_batch(data, {}).source.empty());
  test::expect_error([&] { make_batch(data, std::vector<std::int64_t>{3}); }, {"no text 3"});
}

// Hugging Face: a tokenizer knows what stands around a text, and the model what its decoder begins with and what ends a target.
TEST(MakeBatch, WhatTheTokenizerAddsAndWhatTheModelAdds) {
  const std::int32_t a = test::tiny_id('a'), b = test::tiny_id('b');
  for (const bool framed : {true, false}) {
    SCOPED_TRACE(framed);
    const TokenizerPtr tokenizer = parse_tokenizer(test::tiny_tokenizer(framed).dump());
    const PairTokens tokens = pair_tokens(*tokenizer, {.bos = 5, .eos = 2});
    EXPECT_EQ(tokens.source_end, framed ? 2 : -1);
    PairReport report;
    const PairDataset data = PairDataset::load(pairs_from({{"a", "b"}, {"", "b"}}), *tokenizer, *tokenizer, {}, report, 1, tokens);
    EXPECT_EQ(report.empty, 1);
    const PairIds batch = make_batch(data, std::vector<std::int64_t>{0});
    EXPECT_EQ(batch.source, framed ? Ids({1, a, 2}) : Ids({a}));
    EXPECT_EQ(batch.target, framed ? Ids({5, 1, b}) : Ids({5, b}));
    EXPECT_EQ(batch.labels, framed ? Ids({1, b, 2}) : Ids({b, 2}));
    EXPECT_EQ(batch.source_lengths.front(), std::ssize(batch.source));
    EXPECT_EQ(batch.target_lengths.front(), std::ssize(batch.labels));
  }
  test::expect_error([] { pair_tokens(*letters(), {.bos = -1}); }, {"target tokenizer", "beginning"});
}

TEST(Parallel, RoundedBatchesHaveFewSizes) {
  std::set<std::tuple<std::size_t, std::size_t, std::size_t, std::int64_t, std::int64_t>> sizes;
  int batches = 0;
  for (std::int64_t pairs = 100; pairs < 140; ++pairs)
    for (std::int64_t longest : {17, 20, 25, 31}) {
      PairIds batch;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const std::int64_t source = 10 + i * 7 % (longest - 9), target = 10 + i * 5 % (longest - 9);
        batch.source.insert(batch.source.end(), static_cast<std::size_t>(source), 7);
        batch.target.insert(batch.target.end(), static_cast<std::size_t>(target), 8);
        batch.labels.insert(batch.labels.end(), static_cast<std::size_t>(target), 9);
        batch.source_lengths.push_back(source), batch.target_lengths.push_back(target);
      }
      const PairIds before = batch;
      round_sizes(batch, {.longest_source = 32, .longest_target = 31, .ignored = -100});
      ASSERT_EQ(std::accumulate(batch.source_lengths.begin(), batch.source_lengths.end(), std::int64_t{0}), std::ssize(batch.source));
      ASSERT_EQ(std::accumulate(batch.target_lengths.begin(), batch.target_lengths.end(), std::int64_t{0}), std::ssize(batch.target));
      ASSERT_EQ(batch.labels.size(), batch.target.size());
      ASSERT_EQ(batch.source_lengths.size(), batch.target_lengths.size());
      EXPECT_TRUE(std::equal(before.labels.begin(), before.labels.end(), batch.labels.begin()));
      EXPECT_EQ(std::count(batch.labels.begin(), batch.labels.end(), -100), std::ssize(batch.labels) - std::ssize(before.labels));
      EXPECT_LE(std::ssize(batch.source), std::ssize(before.source) * 5 / 4);
      const std::int64_t s = *std::max_element(batch.source_lengths.begin(), batch.source_lengths.end());
      const std::int64_t t = *std::max_element(batch.target_lengths.begin(), batch.target_lengths.end());
      EXPECT_LE(s, 32);
      EXPECT_LE(t, 31);
      sizes.insert({batch.source.size(), batch.target.size(), batch.source_lengths.size(), s, t});
      ++batches;
    }
  EXPECT_LE(std::ssize(sizes) * 5, batches);
}

}  // namespace
}  // namespace transformer
