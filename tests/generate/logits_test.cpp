#include "transformer/generate/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "generate/softmax_row.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

using Ids = std::vector<std::int32_t>;
using Row = std::vector<float>;
constexpr float never = -std::numeric_limits<float>::infinity();

Row after(const LogitsProcessor& process, Row logits, const LogitsRow& row = {}) {
  process(row, logits);
  return logits;
}

Row logs(const std::vector<double>& probabilities) {
  Row out;
  for (double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

// Which tokens are left.
Ids left(const Row& logits) {
  Ids ids;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > never) ids.push_back(static_cast<std::int32_t>(i));
  return ids;
}

// A long row without equal values.
Row wide(std::size_t size, std::uint32_t seed, float spread) {
  Row out;
  for (std::uint32_t i = 0; i < size; ++i) {
    std::uint32_t x = (i + 1) * 2654435761U ^ seed * 40503U;
    x = (x ^ (x >> 15U)) * 2246822519U;
    x ^= x >> 13U;
    out.push_back(spread * static_cast<float>(x) * 0x1p-32F);
  }
  return out;
}

std::vector<double> probabilities_of(const Row& logits) {
  std::vector<double> p;
  double sum = 0.0;
  for (float v : logits) p.push_back(std::exp(static_cast<double>(v))), sum += p.back();
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace

TEST(Logits, RepetitionPenaltyWorksOnEachTokenOnceWhateverItsSign) {
  const Ids ids{1, 1, 2, 99, -1};
  EXPECT_EQ(after(repetition_penalty(2.0), {4.0F, 3.0F, -1.0F, never}, {.ids = ids}), (Row{4.0F, 1.5F, -2.0F, never}));
  EXPECT_EQ(after(encoder_repetition_penalty(2.0), {4.0F, 3.0F, -1.0F}, {.source = ids}), (Row{4.0F, 6.0F, -0.5F}));
}

TEST(Logits, NoRepeatNGram) {
  const Ids ids{3, 4, 3, 5, 4, 3};
  EXPECT_EQ(left(after(no_repeat_ngram(2), Row(6, 0.0F), {.ids = ids})), (Ids{0, 1, 2, 3}));     // after 3 came 4 and 5
  EXPECT_EQ(left(after(no_repeat_ngram(3), Row(6, 0.0F), {.ids = ids})), (Ids{0, 1, 2, 3, 4}));  // after 4 3 came 5
  EXPECT_EQ(left(after(no_repeat_ngram(1), Row(6, 0.0F), {.ids = ids})), (Ids{0, 1, 2}));
  EXPECT_EQ(left(after(no_repeat_ngram(9), Row(6, 0.0F), {.ids = ids})).size(), 6U);
  const Ids source{3, 1, 2};
  EXPECT_EQ(left(after(encoder_no_repeat_ngram(2), Row(6, 0.0F), {.ids = ids, .source = source})), (Ids{0, 2, 3, 4, 5}));
}

TEST(Logits, BadWordsAndBiases) {
  const Ids ids{5, 2};
  const auto bad = no_bad_words({{1}, {2, 3}, {5, 3, 4}, {5, 2, 4}, {0}}, {0});
  EXPECT_EQ(left(after(bad, Row(6, 0.0F), {.ids = ids})), (Ids{0, 2, 5}));
  EXPECT_EQ(after(sequence_bias({{{1}, 0.5}, {{2, 3}, -1.0}, {{9, 4}, 7.0}}), Row(6, 1.0F), {.ids = ids}),
            (Row{1.0F, 1.5F, 1.0F, 0.0F, 1.0F, 1.0F}));
  expect_error([&] { after(bad, Row(3, 0.0F), {.ids = ids}); }, {"token 3", "0 to 2"});
}

TEST(Logits, LengthsAndForcedTokens) {
  const Ids ids{7, 7, 7};
  const LogitsRow row{.ids = ids, .prompt = 2, .max_length = 4};
  EXPECT_EQ(left(after(min_length(4, {0, 2}), Row(3, 0.0F), row)), Ids{1});
  EXPECT_EQ(left(after(min_length(3, {0, 2}), Row(3, 0.0F), row)).size(), 3U);
  EXPECT_EQ(left(after(min_new_tokens(2, {0, 77}), Row(3, 0.0F), row)), (Ids{1, 2}));
  EXPECT_EQ(left(after(min_new_tokens(1, {0}), Row(3, 0.0F), row)).size(), 3U);
  EXPECT_EQ(after(forced_eos({1}), {5.0F, 6.0F, 7.0F}, row), (Row{never, 0.0F, never}));
  EXPECT_EQ(after(forced_eos({1}), {5.0F, 6.0F}, {.ids = ids, .max_length = 5}), (Row{5.0F, 6.0F}));
  EXPECT_EQ(after(forced_bos(1), {5.0F, 6.0F}, {.ids = Ids{4}}), (Row{never, 0.0F}));
  EXPECT_EQ(after(forced_bos(1), {5.0F, 6.0F}, row), (Row{5.0F, 6.0F}));
  EXPECT_EQ(left(after(suppress_tokens({1, 99, -1}), Row(3, 0.0F), row)), (Ids{0, 2}));
  EXPECT_EQ(left(after(begin_suppress_tokens({1}, false), Row(2, 0.0F), {.ids = ids, .prompt = 3})), Ids{0});
  EXPECT_EQ(left(after(begin_suppress_tokens({1}, false), Row(2, 0.0F), row)).size(), 2U);
  // Where the first token after the start is forced, the one after it is the first that is free.
  EXPECT_EQ(left(after(begin_suppress_tokens({1}, true), Row(2, 0.0F), {.ids = Ids{4, 5}, .prompt = 1})), Ids{0});
  EXPECT_EQ(left(after(begin_suppress_tokens({1}, true), Row(2, 0.0F), {.ids = Ids{4}, .prompt = 1})).size(), 2U);
  expect_error([&] { after(forced_eos({8}), Row(3, 0.0F), row); }, {"forced_eos_token_id", "token 8"});
}

TEST(Logits, ExponentialDecayRaisesTheEnd) {
  const Ids ids(7, 0);
  const auto decay = exponential_decay_length_penalty(3, 1.5, {0, 1});
  const Row got = after(decay, {2.0F, -2.0F, 1.0F}, {.ids = ids, .prompt = 2});  // two tokens past the start
  EXPECT_FLOAT_EQ(got[0], 2.0F + 2.0F * 1.25F);
  EXPECT_FLOAT_EQ(got[1], -2.0F + 2.0F * 1.25F);
  EXPECT_FLOAT_EQ(got[2], 1.0F);
  EXPECT_EQ(after(decay, {2.0F, never}, {.ids = ids, .prompt = 2})[1], never);
  EXPECT_EQ(after(decay, {2.0F, 1.0F}, {.ids = ids, .prompt = 4}), (Row{2.0F, 1.0F}));
}

TEST(Logits, InvalidValuesAndNormalisation) {
  constexpr float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(after(remove_invalid_values(), {NAN, INFINITY, never, 2.0F}), (Row{0.0F, largest, -largest, 2.0F}));
  const Row row = after(renormalize_logits(), {1.0F, 2.0F, never, 30.0F});
  double sum = 0.0;
  for (float v : row) sum += std::exp(static_cast<double>(v));
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_NEAR(row[1] - row[0], 1.0F, 1e-5);
}

TEST(Logits, TopKKeepsWhatEqualsTheLast) {
  EXPECT_EQ(left(after(top_k_only(2), {1.0F, 3.0F, 2.0F, 2.0F, 0.0F})), (Ids{1, 2, 3}));
  EXPECT_EQ(left(after(top_k_only(9), {1.0F, 3.0F, 2.0F})).size(), 3U);
  EXPECT_EQ(left(after(top_k_only(2), {never, 3.0F, never})), Ids{1});
}

TEST(Logits, SmallNucleus) {
  const Row row = logs({0.05, 0.5, 0.3, 0.15});
  EXPECT_EQ(left(after(top_p(0.45), row)), Ids{1});
  EXPECT_EQ(left(after(top_p(0.6), row)), (Ids{1, 2}));
  EXPECT_EQ(left(after(top_p(0.9), row)), (Ids{1, 2, 3}));
  EXPECT_EQ(left(after(top_p(0.0), row)), Ids{1});  // the best always stays
  EXPECT_EQ(left(after(min_p(0.5), row)), (Ids{1, 2}));
  EXPECT_EQ(left(after(min_p(1.0), row)), Ids{1});
  EXPECT_EQ(left(after(epsilon_cutoff(0.1), row)), (Ids{1, 2, 3}));
  EXPECT_EQ(left(after(epsilon_cutoff(0.9), row)), Ids{1});
  EXPECT_EQ(after(temperature(2.0), {4.0F, -2.0F}), (Row{2.0F, -1.0F}));
}

// Against the definitions, over rows of the size of a vocabulary.
TEST(Logits, LargeRowsFollowTheDefinitions) {
  for (std::uint32_t seed : {1U, 2U, 3U}) {
    for (float spread : {0.5F, 6.0F, 40.0F}) {
      const Row row = wide(5000, seed, spread);
      const std::vector<double> p = probabilities_of(row);
      std::vector<std::size_t> order(row.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
      for (double mass : {0.3, 0.9, 0.99}) {
        std::size_t count = 0;
        for (double sum = 0.0; sum < mass; ++count) sum += p[order[count]];
        const Ids kept = left(after(top_p(mass), row));
        EXPECT_EQ(kept.size(), count) << seed << " " << spread << " " << mass;
        for (std::int32_t id : kept) EXPECT_GE(p[static_cast<std::size_t>(id)], p[order[count - 1]]);
      }
      double entropy = 0.0;
      for (double v : p) entropy -= v * std::log(v);
      auto distance = [&](std::size_t i) { return std::abs(-std::log(p[i]) - entropy); };
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
      std::size_t count = 0;
      for (double sum = 0.0; sum < 0.6; ++count) sum += p[order[count]];
      EXPECT_NEAR(static_cast<double>(left(after(typical_p(0.6), row)).size()), static_cast<double>(count), 1.0);
      const double eta = std::min(3e-4, std::sqrt(3e-4) * std::exp(-entropy));
      const auto expected = static_cast<std::size_t>(std::count_if(p.begin(), p.end(), [&](double v) { return v >= eta; }));
      EXPECT_EQ(left(after(eta_cutoff(3e-4), row)).size(), std::max<std::size_t>(1, expected));
    }
  }
}

TEST(Logits, TypicalCanLeaveOutTheMostProbable) {
  // Its surprise is far from the entropy: the many others are what is typical.
  std::vector<double> p(41, 0.015);
  p[7] = 0.4;
  const Ids kept = left(after(typical_p(0.5), logs(p)));
  EXPECT_EQ(std::count(kept.begin(), kept.end(), 7), 0);
}

TEST(Logits, DrawIsTheInverseOfTheSum) {
  const Row row = logs({0.25, 0.0, 0.5, 0.25});
  EXPECT_EQ(draw(row, 0.0), 0);
  EXPECT_EQ(draw(row, 0.2499), 0);
  EXPECT_EQ(draw(row, 0.2501), 2);
  EXPECT_EQ(draw(row, 0.7499), 2);
  EXPECT_EQ(draw(row, 0.7501), 3);
  EXPECT_EQ(draw(row, std::nextafter(1.0, 0.0)), 3);
  EXPECT_EQ(draw(Row{never, never}, 0.5), -1);
  EXPECT_EQ(draw(Row{NAN, NAN}, 0.5), -1);
}

// The order matters: the penalty is on logits that are not yet divided, and the cut comes after the division.
TEST(Logits, TheListIsInHuggingFacesOrder) {
  GenerationConfig config{.do_sample = true, .temperature = 0.5, .top_k = 2, .repetition_penalty = 2.0, .eos_token_id = {3}};
  config.min_new_tokens = 1;
  Row row{8.0F, 5.0F, 3.0F, 20.0F};
  const Ids ids{0};
  for (const LogitsProcessor& process : logits_processors(config)) process({.ids = ids, .prompt = 1, .max_length = 9}, row);
  EXPECT_EQ(row, (Row{8.0F, 10.0F, never, never}));
  EXPECT_TRUE(logits_processors({}).empty());
  config.do_sample = false;
  EXPECT_EQ(logits_processors(config).size(), 2U);  // temperature and top_k are for drawing
}

}  // namespace transformer::test
