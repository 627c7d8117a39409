#include "transformer/generate/generate.h"

#include <gtest/gtest.h>

#include <set>

#include "generate/fake_model.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

// Logits that are a hash of all ids so far: any difference in a hypothesis shows in what follows.
struct HashModel final : SequenceModel {
  static constexpr std::int64_t vocabulary = 13;
  float scale;
  std::int64_t longest = 1000;
  explicit HashModel(float s) : scale(s) {}

  struct Decoder final : StepDecoder {
    float scale;
    std::vector<Ids> so_far;
    Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended*) override {
      std::vector<float> logits;
      for (std::size_t r = 0; r < so_far.size(); ++r) {
        const auto begin = tokens.begin() + sequences.begin(static_cast<std::int64_t>(r));
        so_far[r].insert(so_far[r].end(), begin, begin + sequences.length(static_cast<std::int64_t>(r)));
        std::uint32_t h = 2166136261U;
        for (std::int32_t id : so_far[r]) h = (h ^ static_cast<std::uint32_t>(id)) * 16777619U;
        for (std::uint32_t v = 0; v < vocabulary; ++v) {
          std::uint32_t x = h ^ (v * 2654435761U);
          x = (x ^ (x >> 15U)) * 2246822519U;
          x ^= x >> 13U;
          logits.push_back(static_cast<float>(x % 1000U) / scale);
        }
      }
      return Tensor::from<float>(ctx, {static_cast<std::int64_t>(so_far.size()), vocabulary}, logits);
    }
    void reorder(Context&, std::span<const std::int64_t> parents) override {
      std::vector<Ids> next;
      for (std::int64_t p : parents) next.push_back(so_far[static_cast<std::size_t>(p)]);
      so_far = std::move(next);
    }
  };
  std::unique_ptr<StepDecoder> start(Context&, std::span<const std::span<const std::int32_t>> sources) const override {
    auto decoder = std::make_unique<Decoder>();
    decoder->scale = scale;
    decoder->so_far.resize(sources.size());
    return decoder;
  }
  SpecialTokens special() const override { return {}; }
  Ids prompt(std::span<const std::int32_t> source) const override { return {source.begin(), source.end()}; }
  std::int64_t max_tokens() const override { return longest; }
  std::int64_t max_source() const override { return longest; }
};

// Found by a separate program in float32 that follows Hugging Face's rules line by line (Transformers 5: the beam search and
// sampling of GenerationMixin and its processors), for the prompts below or, where one result stands, for the start token 2
// alone; 9 new tokens at most, end token 1.
const char* const beam_cases = R"json([
  {"scale": 100, "config": {"num_beams": 4},
   "found": [[[8, 0, 7, 9, 12, 7, 1]], [[2, 7, 4, 3, 12, 9, 5, 9, 9]], [[6, 3, 11, 3, 8, 3, 0, 6, 0]]]},
  {"scale": 150, "config": {"num_beams": 4, "length_penalty": 0.6, "num_return_sequences": 4},
   "found": [[[8, 1], [8, 0, 7, 9, 12, 7, 1], [8, 6, 7, 10, 7, 11, 6, 11, 8], [8, 6, 7, 10, 7, 11, 6, 11, 2]], [[2, 7, 4, 3, 12, 9,
             5, 9, 9], [2, 7, 4, 3, 12, 9, 3, 10, 12], [2, 7, 4, 3, 12, 9, 5, 9, 11], [2, 7, 4, 3, 12, 9, 5, 7, 11]], [[6, 3, 11, 3,
             8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 8, 3, 0, 6, 4], [6, 3, 11, 3, 5, 8, 5, 9, 9]]]},
  {"scale": 300, "config": {"num_beams": 4, "length_penalty": 0.0, "num_return_sequences": 2},
   "found": [[[1], [8, 1]], [[2, 12, 9, 5, 8, 5, 4, 10, 1], [2, 7, 4, 3, 12, 9, 5, 9, 9]], [[1], [6, 3, 11, 3, 11, 1]]]},
  {"scale": 200, "config": {"num_beams": 4, "length_penalty": 2.0, "early_stopping": true, "num_return_sequences": 3},
   "found": [[[8, 6, 7, 10, 7, 2, 12, 1], [8, 0, 7, 9, 12, 7, 1], [8, 1]], [[2, 7, 4, 3, 12, 9, 5, 9, 9], [2, 12, 9, 5, 8, 5, 4, 10,
             1], [2, 7, 4, 3, 12, 9, 5, 9, 11]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 8, 3, 0,
             6, 4]]]},
  {"scale": 250, "config": {"num_beams": 3, "early_stopping": "never", "num_return_sequences": 3},
   "found": [[[8, 6, 7, 10, 7, 11, 6, 11, 8], [8, 6, 7, 10, 7, 11, 6, 11, 2], [8, 6, 7, 10, 7, 2, 12, 4, 6]], [[2, 7, 4, 3, 12, 9, 5,
             9, 9], [2, 12, 9, 5, 8, 5, 4, 10, 1], [2, 7, 4, 3, 12, 9, 5, 9, 11]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3,
             0, 6, 1], [6, 3, 11, 3, 8, 3, 0, 6, 4]]]},
  {"scale": 250, "config": {"num_beams": 3, "length_penalty": -1.0, "early_stopping": "never", "num_return_sequences": 3},
   "found": [[[1], [8, 6, 7, 10, 7, 2, 12, 1], [8, 6, 7, 10, 7, 11, 6, 11, 8]], [[2, 7, 4, 3, 12, 9, 5, 9, 9], [2, 12, 9, 5, 8, 5, 4,
             10, 1], [2, 7, 4, 3, 12, 9, 5, 9, 11]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 8, 3,
             0, 6, 4]]]},
  {"scale": 250, "config": {"eos_token_id": [1, 5, 7], "num_beams": 4, "num_return_sequences": 4},
   "found": [[[8, 6, 7], [8, 0, 7], [8, 6, 1], [8, 1]], [[2, 7], [2, 3, 10, 4, 2, 11, 6, 8, 2], [2, 3, 10, 4, 2, 11, 2, 10, 4], [2,
             12, 9, 12, 1]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 8, 3, 0, 6, 4], [6, 3, 8,
             5]]]},
  {"scale": 120, "config": {"num_beams": 4, "forced_eos_token_id": 1, "num_return_sequences": 4},
   "found": [[[8, 6, 7, 10, 7, 11, 6, 11, 1], [8, 0, 7, 9, 12, 7, 1], [8, 6, 7, 10, 7, 2, 12, 7, 1], [8, 6, 7, 10, 7, 9, 3, 4, 1]],
             [[2, 7, 4, 3, 12, 9, 5, 9, 1], [2, 7, 4, 3, 12, 9, 3, 11, 1], [2, 7, 4, 3, 12, 9, 5, 7, 1], [2, 7, 4, 3, 12, 9, 3, 10,
             1]], [[6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 5, 8, 5, 9, 1], [6, 3, 11, 3, 5, 8, 5, 6, 1], [6, 3, 11, 3, 5, 8, 5,
             7, 1]]]},
  {"scale": 200, "config": {"eos_token_id": [], "num_beams": 4, "num_return_sequences": 2},
   "found": [[[8, 6, 7, 10, 7, 11, 6, 11, 8], [8, 6, 7, 10, 7, 11, 6, 11, 2]], [[2, 7, 4, 3, 12, 9, 5, 9, 9], [2, 12, 9, 5, 8, 5, 4,
             10, 1]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1]]]},
  {"scale": 400, "config": {"num_beams": 4, "min_new_tokens": 6, "num_return_sequences": 4},
   "found": [[[8, 0, 7, 9, 12, 7, 1], [8, 6, 7, 10, 7, 11, 6, 11, 8], [8, 6, 7, 10, 7, 11, 6, 11, 2], [8, 6, 7, 10, 7, 2, 12, 4, 6]],
             [[2, 12, 9, 5, 8, 5, 4, 10, 1], [2, 7, 4, 3, 12, 9, 5, 9, 9], [2, 12, 9, 5, 8, 5, 4, 10, 2], [2, 7, 4, 3, 12, 9, 5, 9,
             11]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1], [6, 3, 11, 3, 8, 3, 0, 6, 4], [6, 3, 11, 3, 5, 8, 5,
             7, 3]]]},
  {"scale": 400, "config": {"num_beams": 4, "min_length": 7, "num_return_sequences": 2},
   "found": [[[8, 0, 7, 9, 12, 7, 1], [8, 6, 7, 10, 7, 11, 6, 11, 8]], [[2, 12, 9, 5, 8, 5, 4, 10, 1], [2, 7, 4, 3, 12, 9, 5, 9, 9]],
             [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1]]]},
  {"scale": 150, "config": {"num_beams": 3, "repetition_penalty": 1.7, "num_return_sequences": 3},
   "found": [[[8, 0, 7, 9, 12, 1], [8, 0, 7, 9, 12, 7, 1], [8, 0, 7, 9, 12, 7, 11, 10, 10]], [[2, 12, 9, 5, 8, 5, 4, 10, 1], [2, 7,
             4, 3, 12, 9, 5, 9, 11], [2, 12, 9, 5, 8, 5, 4, 10, 0]], [[6, 3, 8, 5, 12, 4, 9, 1], [0, 8, 2, 4, 3, 4, 1], [6, 3, 8, 5,
             12, 4, 9, 10, 1]]]},
  {"scale": 80, "config": {"num_beams": 3, "no_repeat_ngram_size": 2, "num_return_sequences": 2},
   "found": [[[7, 0, 12, 5, 7, 9, 7, 8, 9], [7, 0, 12, 11, 11, 5, 5, 2, 11]], [[2, 7, 4, 3, 12, 9, 5, 9, 9], [2, 7, 0, 8, 11, 5, 8,
             0, 4]], [[6, 3, 11, 3, 8, 3, 0, 6, 0], [6, 3, 11, 3, 8, 3, 0, 6, 1]]]},
  {"scale": 120, "config": {"num_beams": 3, "bad_words_ids": [[4], [2, 8], [1]], "suppress_tokens": [9], "begin_suppress_tokens": [3,
    6], "num_return_sequences": 3},
   "found": [[[7, 0, 12, 11, 11, 5, 5, 2, 11], [7, 0, 12, 11, 11, 5, 5, 2, 10], [7, 0, 12, 11, 11, 5, 5, 2, 12]], [[2, 7, 0, 8, 0, 5,
             6, 11, 0], [2, 7, 0, 8, 11, 5, 8, 0, 12], [2, 7, 0, 1]], [[0, 12, 10, 3, 7, 10, 7, 3, 5], [0, 12, 10, 3, 7, 10, 0, 7,
             8], [0, 3, 7, 11, 6, 8, 1]]]},
  {"scale": 150, "config": {"num_beams": 3, "encoder_repetition_penalty": 1.5, "encoder_no_repeat_ngram_size": 2, "sequence_bias":
    [[[6], 2.0], [[2, 3], -4.5]], "num_return_sequences": 2},
   "found": [[[0, 6, 11, 12, 8, 6, 6, 6, 6], [0, 6, 11, 12, 8, 6, 6, 3, 6]], [[2, 6, 7, 3, 8, 6, 6, 8, 6], [2, 6, 7, 3, 8, 6, 6, 2,
             6]], [[6, 10, 6, 6, 12, 6, 2, 11, 6], [6, 1]]]},
  {"scale": 120, "config": {"num_beams": 2, "exponential_decay_length_penalty": [3, 1.4], "num_return_sequences": 2},
   "found": [[[8, 0, 7, 9, 12, 1], [8, 6, 7, 10, 7, 1]], [[2, 7, 4, 3, 12, 1], [2, 7, 0, 8, 11, 1]], [[6, 3, 11, 3, 5, 1], [6, 3, 11,
             3, 8, 1]]]},
  {"scale": 100, "config": {"repetition_penalty": 1.7},
   "found": [[[7, 0, 12, 11, 5, 6, 10, 1]], [[2, 6, 1]], [[0, 8, 2, 4, 7, 9, 5, 6, 3]]]},
  {"scale": 20, "config": {"no_repeat_ngram_size": 2},
   "found": [[[7, 0, 12, 11, 11, 5, 5, 2, 11]], [[2, 7, 0, 8, 11, 5, 8, 0, 4]], [[0, 8, 2, 4, 12, 1]]]},
  {"scale": 100, "config": {"forced_eos_token_id": 1, "min_new_tokens": 20},
   "found": [[[8, 0, 7, 9, 12, 7, 11, 10, 1]], [[2, 7, 0, 8, 11, 5, 8, 0, 1]], [[0, 8, 2, 4, 12, 4, 10, 7, 1]]]},
  {"scale": 100, "config": {"exponential_decay_length_penalty": [2, 1.5]},
   "found": [[[8, 0, 7, 9, 1]], [[2, 7, 0, 1]], [[0, 8, 2, 4, 12, 1]]]},
  {"scale": 50, "config": {"encoder_repetition_penalty": 1.5, "encoder_no_repeat_ngram_size": 2, "sequence_bias": [[[6], 2.0], [[2,
    3], -4.5]]},
   "found": [[[4, 3, 3, 8, 4, 7, 3, 8, 3]], [[2, 7, 0, 7, 10, 6, 9, 7, 3]], [[10, 10, 10, 6, 11, 12, 8, 10, 11]]]},
  {"scale": 150, "config": {"num_beams": 3, "forced_bos_token_id": 6, "num_return_sequences": 2},
   "found": [[[6, 3, 12, 4, 0, 0, 2, 2, 2], [6, 3, 8, 8, 5, 12, 3, 4, 12]]]},
  {"scale": 150, "config": {"num_beams": 3, "forced_bos_token_id": 6, "begin_suppress_tokens": [6, 2], "forced_eos_token_id": 1,
    "num_return_sequences": 3},
   "found": [[[6, 3, 8, 8, 5, 12, 3, 4, 1], [6, 3, 12, 4, 0, 0, 2, 2, 1], [6, 3, 12, 4, 0, 0, 2, 4, 1]]]},
  {"scale": 100, "config": {"forced_bos_token_id": 6, "forced_eos_token_id": 1},
   "found": [[[6, 10, 4, 4, 8, 11, 6, 2, 1]]]}
])json";

std::vector<Ids> ids_of(const std::vector<Generated>& found) {
  std::vector<Ids> ids;
  for (const Generated& g : found) ids.push_back(g.ids);
  return ids;
}

// Words of one letter: token 4 is "a".
TextStream letters(std::size_t) {
  return [](std::int32_t id) { return id < 0 ? std::string() : std::string(1, static_cast<char>('a' + id - 4)); };
}

// "abcabc…", then the end after `words`; token 4 is a.
FakeModel alphabet(std::size_t words) {
  FakeModel model([words](const Ids&, const Ids& so_far) {
    std::vector<float> p(30, 0.0F);
    p[so_far.size() > words ? 3 : 4 + (so_far.size() - 1) % 26] = 1.0F;
    return p;
  });
  model.longest = 100;
  return model;
}

}  // namespace

TEST(Generate, FindsWhatHuggingFaceFinds) {
  Context ctx;
  for (const nlohmann::json& c : nlohmann::json::parse(beam_cases)) {
    GenerationConfig config = read_generation_config(c["config"]);
    if (!c["config"].contains("eos_token_id")) config.eos_token_id = {1};
    config.max_new_tokens = 9;
    const std::vector<Ids> prompts = c["found"].size() == 1 ? std::vector<Ids>{{2}} : std::vector<Ids>{{3, 4, 2, 8, 2}, {7}, {12, 11, 10}};
    const auto found = generate(ctx, HashModel(c["scale"].get<float>()), prompts, config);
    ASSERT_EQ(found.size(), c["found"].size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(ids_of(found[i]), c["found"][i].get<std::vector<Ids>>()) << c["config"] << " prompt " << i;
  }
}

TEST(Generate, ReasonsAndLimits) {
  Context ctx;
  const FakeModel model = alphabet(5);
  const std::vector<Ids> one{{9}};
  auto run = [&](GenerationConfig config) {
    config.eos_token_id = {3};
    return generate(ctx, model, one, config)[0][0];
  };
  EXPECT_EQ(run({}).ids, (Ids{4, 5, 6, 7, 8, 3}));
  EXPECT_EQ(run({}).finish, FinishReason::eos);
  EXPECT_EQ(run({.max_new_tokens = 2}).ids, (Ids{4, 5}));
  EXPECT_EQ(run({.max_new_tokens = 2}).finish, FinishReason::length);
  EXPECT_EQ(run({.max_length = 4}).ids, (Ids{4, 5, 6}));                          // the start token counts
  EXPECT_EQ(run({.max_length = 2, .max_new_tokens = 4}).ids, (Ids{4, 5, 6, 7}));  // the latter wins
  const HashModel endless(100.0F);
  EXPECT_EQ(generate(ctx, endless, one, {})[0][0].ids.size(), 20U);  // Hugging Face's default
  HashModel small(100.0F);
  small.longest = 6;  // tokens it can read: one more can be predicted
  EXPECT_EQ(generate(ctx, small, one, {.max_new_tokens = 50})[0][0].ids.size(), 6U);
  EXPECT_EQ(generate(ctx, small, one, {.max_length = 50})[0][0].finish, FinishReason::length);
}

TEST(Generate, TheSameSeedDrawsTheSameWhateverElseIsInTheBatch) {
  Context ctx;
  const HashModel model(300.0F);
  GenerationConfig config{.max_new_tokens = 12, .do_sample = true, .top_k = 0};
  const std::vector<Ids> prompts{{3, 4, 2}, {5}, {6, 6, 6, 6, 9}, {11, 2}};
  const auto together = generate(ctx, model, prompts, config, {.seed = 5});
  for (std::size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(ids_of(generate(ctx, model, {&prompts[i], 1}, config, {.seed = 5})[0]), ids_of(together[i]));
  EXPECT_NE(ids_of(generate(ctx, model, prompts, config, {.seed = 6})[0]), ids_of(together[0]));
  for (std::int64_t batch_tokens : {1, 17, 40})
    EXPECT_EQ(ids_of(generate(ctx, model, prompts, config, {.seed = 5, .batch_tokens = batch_tokens})[2]), ids_of(together[2]));
  // The first of several draws is the only one of one, and all differ.
  config.num_return_sequences = 6;
  const auto several = generate(ctx, model, prompts, config, {.seed = 5});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto ids = ids_of(several[i]);
    EXPECT_EQ(ids[0], together[i][0].ids);
    EXPECT_EQ(std::set<Ids>(ids.begin(), ids.end()).size(), 6U);
  }
}

TEST(Generate, TemperatureZeroIsGreedy) {
  Context ctx;
  const HashModel model(300.0F);
  const std::vector<Ids> prompts{{3, 4, 2}, {5}};
  const auto greedy = generate(ctx, model, prompts, {}), zero = generate(ctx, model, prompts, {.do_sample = true, .temperature = 0.0});
  for (std::size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(ids_of(zero[i]), ids_of(greedy[i]));
  EXPECT_EQ(ids_of(generate(ctx, model, prompts, {.do_sample = true, .top_k = 1}, {.seed = 3})[0]), ids_of(greedy[0]));
}

// 2000 draws of one token: each frequency within five standard deviations of its probability.
TEST(Generate, DrawsFollowTheDistribution) {
  Context ctx;
  const std::vector<float> p{0.0F, 0.4F, 0.3F, 0.2F, 0.06F, 0.04F};
  const FakeModel model([&](const Ids&, const Ids&) { return p; });
  const std::vector<Ids> one{{4}};
  auto frequencies = [&](GenerationConfig config) {
    config.do_sample = true, config.max_new_tokens = 1, config.num_return_sequences = 2000;
    std::vector<double> n(p.size());
    const auto found = generate(ctx, model, one, config, {.seed = 11});
    for (const Generated& g : found[0]) n[static_cast<std::size_t>(g.ids[0])] += 1.0 / 2000.0;
    return n;
  };
  auto expect = [&](const std::vector<double>& got, const std::vector<double>& want) {
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 5.0 * std::sqrt(want[i] * (1.0 - want[i]) / 2000.0) + 1e-12) << "token " << i;
  };
  expect(frequencies({}), {0.0, 0.4, 0.3, 0.2, 0.06, 0.04});
  expect(frequencies({.top_k = 2}), {0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0});
  expect(frequencies({.top_p = 0.71}), {0.0, 4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0, 0.0, 0.0});
  expect(frequencies({.min_p = 0.6}), {0.0, 4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0});
  const double sum = 0.16 + 0.09 + 0.04 + 0.0036 + 0.0016;
  expect(frequencies({.temperature = 0.5}), {0.0, 0.16 / sum, 0.09 / sum, 0.04 / sum, 0.0036 / sum, 0.0016 / sum});
}

TEST(Generate, ScoresAreTheModelsOwnLogProbabilities) {
  Context ctx;
  const FakeModel model([](const Ids&, const Ids& so_far) {
    return so_far.size() < 3 ? std::vector<float>{0.0F, 0.0F, 0.0F, 0.1F, 0.6F, 0.3F}
                             : std::vector<float>{0.0F, 0.0F, 0.0F, 0.8F, 0.1F, 0.1F};
  });
  const std::vector<Ids> one{{4}};
  const GenerationConfig config{.repetition_penalty = 3.0, .eos_token_id = {3}};
  const Generated g = generate(ctx, model, one, config, {.scores = true})[0][0];
  ASSERT_EQ(g.ids.size(), g.token_scores.size());
  EXPECT_NEAR(g.token_scores[0], std::log(0.6F), 1e-6);
  EXPECT_TRUE(generate(ctx, model, one, config)[0][0].token_scores.empty());
}

TEST(Generate, StopStringsEndTheTextBeforeThem) {
  Context ctx;
  const FakeModel model = alphabet(40);
  const std::vector<Ids> one{{9}};
  auto run = [&](std::vector<std::string> stops, std::int64_t tokens = 30) {
    std::string streamed;
    std::optional<FinishReason> last;
    auto on_token = [&](const GeneratedToken& t) {
      EXPECT_FALSE(last.has_value());
      streamed += t.text;
      last = t.finish;
      return false;
    };
    const GenerationConfig config{.max_new_tokens = tokens, .stop_strings = std::move(stops), .eos_token_id = {3}};
    Generated g = generate(ctx, model, one, config, {.text = letters, .on_token = on_token})[0][0];
    EXPECT_EQ(streamed, g.text);
    EXPECT_EQ(last, g.finish);
    return g;
  };
  EXPECT_EQ(run({"def"}).text, "abc");
  EXPECT_EQ(run({"def"}).ids.size(), 6U);
  EXPECT_EQ(run({"def"}).finish, FinishReason::stop);
  EXPECT_EQ(run({"xyz", "efg", "de"}).text, "abc");  // the first that is complete
  EXPECT_EQ(run({"a"}).text, "");
  EXPECT_EQ(run({"cdx"}, 5).text, "abcde");  // a beginning that came to nothing is given
  EXPECT_EQ(run({"efg"}, 5).text, "abcde");  // also at the end
  EXPECT_EQ(run({"efg"}, 5).finish, FinishReason::length);
  EXPECT_EQ(run({"yzab"}, 40).text, "abcdefghijklmnopqrstuvwx");
}

TEST(Generate, TheCallerMayStop) {
  Context ctx;
  const FakeModel model = alphabet(40);
  const std::vector<Ids> two{{9}, {9, 9}};
  auto on_token = [&](const GeneratedToken& t) { return t.prompt == 1 && t.id == 6; };
  const auto found = generate(ctx, model, two, {.max_new_tokens = 5}, {.text = letters, .on_token = on_token});
  EXPECT_EQ(found[0][0].text, "abcde");
  EXPECT_EQ(found[1][0].text, "abc");
  EXPECT_EQ(found[1][0].finish, FinishReason::stop);
}

TEST(Generate, BeamSearchGivesItsTextWhenItIsDone) {
  Context ctx;
  const std::vector<Ids> one{{9}};
  std::string streamed;
  auto on_token = [&](const GeneratedToken& t) { return streamed += t.text, false; };
  const auto found = generate(ctx, alphabet(4), one, {.num_beams = 2, .eos_token_id = {3}}, {.text = letters, .on_token = on_token});
  EXPECT_EQ(found[0][0].text, "abcd");
  EXPECT_EQ(streamed, "abcd");
  EXPECT_NEAR(found[0][0].score, 0.0F, 1e-6);
}

TEST(Generate, ProcessorsOfTheCallerComeLast) {
  Context ctx;
  const std::vector<Ids> one{{9}};
  auto only_two = [](const LogitsRow&, std::span<float> logits) {
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = i == 2 ? 0.0F : -INFINITY;
  };
  EXPECT_EQ(generate(ctx, HashModel(100.0F), one, {.max_new_tokens = 3}, {.processors = {only_two}})[0][0].ids, (Ids{2, 2, 2}));
}

TEST(Generate, RefusesWhatCannotBe) {
  Context ctx;
  const HashModel model(100.0F);
  const std::vector<Ids> one{{4}}, empty{{}}, long_one{Ids(20, 4)};
  auto run = [&](const GenerationConfig& config, const std::vector<Ids>& prompts) { return generate(ctx, model, prompts, config); };
  expect_error([&] { run({.num_beams = 0}, one); }, {"num_beams is 0"});
  expect_error([&] { run({.do_sample = true, .num_beams = 2}, one); }, {"num_beams is 2 with do_sample"});
  expect_error([&] { run({.num_return_sequences = 2}, one); }, {"num_return_sequences is 2", "do_sample"});
  expect_error([&] { run({.num_beams = 2, .num_return_sequences = 3}, one); }, {"num_return_sequences is 3", "beam of 2"});
  expect_error([&] { run({.temperature = NAN}, one); }, {"temperature"});
  expect_error([&] { run({.top_p = 1.5}, one); }, {"top_p is 1.5", "from 0 to 1"});
  expect_error([&] { run({.repetition_penalty = 0.0}, one); }, {"repetition_penalty is 0"});
  expect_error([&] { run({.stop_strings = {"x"}}, one); }, {"stop_strings", "text"});
  expect_error([&] { run({.max_length = 20}, long_one); }, {"prompt has 20 tokens", "max_length is 20"});
  expect_error([&] { run({.bad_words_ids = {{13}}}, one); }, {"token 13", "0 to 12"});
  expect_error([&] { run({.suppress_tokens = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, one); }, {"no token is left"});
  expect_error([&] { run({}, empty); }, {"prompt 0 is empty"});
  EXPECT_TRUE(run({}, {}).empty());
}

}  // namespace transformer::test
