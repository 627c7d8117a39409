#include "transformer/generate/search.h"

#include <algorithm>
#include <set>

#include "core/shared/top_k.h"
#include "generate/fake_model.h"
#include "support/op_check.h"
#include "transformer/ops/random.h"
#include "transformer/ops/softmax.h"

namespace transformer::test {
namespace {

constexpr std::int32_t bos = 2, eos = 3;

TransformerConfig tiny(std::int64_t vocabulary) {
  return {.d_model = 16,
          .num_heads = 4,
          .d_ff = 24,
          .num_layers = 2,
          .src_vocab_size = 12,
          .tgt_vocab_size = vocabulary,
          .max_len = 40,
          .dropout = 0.3F,
          .attention_dropout = 0.3F,
          .ffn_dropout = 0.3F};
}

// A random model with opinions: sharp enough that hypotheses differ.
Transformer random_model(Context& ctx, const TransformerConfig& config) {
  Transformer model(config);
  initialize(ctx, model);
  model.output->weight.tensor = random_normal(ctx, model.output->weight.shape, 0.0F, 0.7F);
  model.output->bias.tensor = random_normal(ctx, model.output->bias.shape, 0.0F, 0.5F);
  return model;
}

EncoderDecoderView view(const Transformer& model) { return {model, eos, {}}; }

// Log-probabilities of each token of a target and of the end, by one pass without a cache.
std::vector<float> uncached(Context& ctx, const Transformer& model, Ids source, const Ids& target, std::vector<float>* all = nullptr) {
  NoGradients guard(ctx);
  source.push_back(eos);
  Ids input = target, labels = target;
  input.insert(input.begin(), bos);
  labels.push_back(eos);
  const auto n = static_cast<std::int64_t>(source.size()), m = static_cast<std::int64_t>(input.size());
  const PairBatch batch{.source_ids = Tensor::from<std::int32_t>(ctx, {n}, source),
                        .source = Sequences::uniform(1, n),
                        .target_ids = Tensor::from<std::int32_t>(ctx, {m}, input),
                        .target = Sequences::uniform(1, m)};
  const Tensor log_p = log_softmax(ctx, model(ctx, batch));
  if (all != nullptr) *all = log_p.to_vector<float>();
  std::vector<float> scores;
  for (std::size_t i = 0; i < labels.size(); ++i)
    scores.push_back(log_p.to_vector<float>()[i * static_cast<std::size_t>(log_p.cols()) + static_cast<std::size_t>(labels[i])]);
  return scores;
}

std::vector<Ids> sources_of(const std::vector<std::size_t>& lengths) {
  std::vector<Ids> sources;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Ids& s = sources.emplace_back();
    for (std::size_t j = 0; j < lengths[i]; ++j) s.push_back(static_cast<std::int32_t>(4 + (i * 7 + j * j * 3 + j) % 8));
  }
  return sources;
}

// Probabilities over 6 tokens: 0 … 3 are special, 4 and 5 are words a and b.
std::vector<float> over(float end, float a, float b) { return {0.0F, 0.0F, 0.0F, end, a, b}; }

}  // namespace

TEST(TopK, LargestFirstAndOfEqualOnesTheFirst) {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37) % 100);
  values[5] = NAN, values[6] = -INFINITY;
  for (std::size_t k : {0U, 1U, 2U, 7U, 64U, 998U, 2000U}) {
    std::vector<std::pair<float, std::int32_t>> want;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] > -INFINITY) want.emplace_back(-values[i], static_cast<std::int32_t>(i));
    std::sort(want.begin(), want.end());
    want.resize(std::min(k, want.size()));
    std::vector<Scored> got;
    top_k(values, k, got);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::pair(-got[i].value, got[i].id), want[i]) << i;
  }
}

// Every target of up to 3 words from 3, for random models: the beam holds them all, so it must find the best in order.
TEST(Search, EqualsExhaustiveSearch) {
  for (std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    Context ctx({.seed = seed});
    TransformerConfig config = tiny(7);
    config.norm = seed % 2 == 0 ? NormPlace::pre : NormPlace::post;
    const Transformer model = random_model(ctx, config);
    const std::vector<Ids> sources = sources_of({1, 4, 3});
    std::vector<Ids> targets{{}};
    for (std::size_t i = 0; i < targets.size(); ++i)
      for (std::int32_t word : {4, 5, 6})
        if (Ids longer = targets[i]; longer.size() < 3) longer.push_back(word), targets.push_back(longer);
    ASSERT_EQ(targets.size(), 40U);
    std::vector<std::vector<std::vector<float>>> log_p(sources.size());
    for (std::size_t s = 0; s < sources.size(); ++s)
      for (const Ids& target : targets) log_p[s].push_back(uncached(ctx, model, sources[s], target));
    for (double penalty : {0.0, 0.6, 1.0, 2.5}) {
      const auto found = search(ctx, view(model), sources, {.num_beams = 64, .num_return_sequences = 40, .length_penalty = penalty},
                                {.max_length_a = 0.0, .max_length_b = 3});
      for (std::size_t s = 0; s < sources.size(); ++s) {
        std::vector<std::pair<double, Ids>> want;
        for (std::size_t t = 0; t < targets.size(); ++t) {
          double sum = 0.0;
          for (float p : log_p[s][t]) sum += static_cast<double>(p);
          want.emplace_back(sum / std::pow(static_cast<double>(targets[t].size()) + 1.0, penalty), targets[t]);
        }
        std::sort(want.begin(), want.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
        ASSERT_EQ(found[s].size(), 40U);
        for (std::size_t i = 0; i < 40; ++i) {
          EXPECT_EQ(found[s][i].ids, want[i].second) << "seed " << seed << " penalty " << penalty << " place " << i;
          EXPECT_NEAR(static_cast<double>(found[s][i].score), want[i].first, 1e-5);
        }
      }
    }
  }
}

TEST(Search, GreedyIsBeamOne) {
  Context ctx({.seed = 3});
  const Transformer model = random_model(ctx, tiny(30));
  const std::vector<Ids> sources = sources_of({5, 1, 9, 3, 0, 2});
  const auto found = search(ctx, view(model), sources, {.num_beams = 1}, {.allow_unk = true});
  for (std::size_t s = 0; s < sources.size(); ++s) {
    Ids want;
    for (std::size_t limit = 2 * sources[s].size() + 10; want.size() < limit;) {
      std::vector<float> all;
      uncached(ctx, model, sources[s], want, &all);
      float* row = all.data() + want.size() * 30;
      row[0] = row[bos] = -INFINITY;
      const auto next = static_cast<std::int32_t>(std::max_element(row, row + 30) - row);
      if (next == eos) break;
      want.push_back(next);
    }
    ASSERT_EQ(found[s].size(), 1U);
    EXPECT_EQ(found[s][0].ids, want) << s;
  }
}

// The scores along a hypothesis, found step by step with reordered caches, are those of one pass over it.
TEST(Search, CachedEqualsUncached) {
  for (PositionKind kind : {PositionKind::none, PositionKind::sinusoidal, PositionKind::learned, PositionKind::relative,
                            PositionKind::rotary, PositionKind::alibi}) {
    Context ctx({.seed = 5});
    TransformerConfig config = tiny(25);
    config.positions = kind;
    config.num_kv_heads = 2;
    config.norm = kind == PositionKind::rotary ? NormPlace::pre : NormPlace::post;
    const Transformer model = random_model(ctx, config);
    const std::vector<Ids> sources = sources_of({7, 2, 4});
    const auto found = search(ctx, view(model), sources, {.min_new_tokens = 18, .num_beams = 4, .num_return_sequences = 4});
    for (std::size_t s = 0; s < sources.size(); ++s) {
      ASSERT_EQ(found[s].size(), 4U);
      for (const Hypothesis& h : found[s]) {
        EXPECT_GE(h.ids.size(), 18U);
        const std::vector<float> want = uncached(ctx, model, sources[s], h.ids);
        ASSERT_EQ(h.token_scores.size(), want.size());
        double sum = 0.0;
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_NEAR(h.token_scores[i], want[i], 1e-5) << "positions " << static_cast<int>(kind) << " token " << i;
          sum += static_cast<double>(want[i]);
        }
        EXPECT_NEAR(static_cast<double>(h.score), sum / static_cast<double>(want.size()), 1e-5);
      }
    }
  }
}

TEST(Search, NBestIsSortedAndDistinct) {
  Context ctx({.seed = 8});
  const Transformer model = random_model(ctx, tiny(20));
  const std::vector<Ids> sources = sources_of({3, 6});
  const auto all = search(ctx, view(model), sources, {.num_beams = 6, .num_return_sequences = 6}),
             one = search(ctx, view(model), sources, {.num_beams = 6});
  for (std::size_t s = 0; s < sources.size(); ++s) {
    ASSERT_EQ(all[s].size(), 6U);
    ASSERT_EQ(one[s].size(), 1U);
    EXPECT_EQ(all[s][0].ids, one[s][0].ids);
    std::set<Ids> distinct;
    for (std::size_t i = 0; i < 6; ++i) {
      distinct.insert(all[s][i].ids);
      EXPECT_GE(all[s][i == 0 ? 0 : i - 1].score, all[s][i].score);
      for (std::int32_t id : all[s][i].ids) EXPECT_GT(id, eos);  // no pad, unk, bos, eos
    }
    EXPECT_EQ(distinct.size(), 6U);
  }
}

TEST(Search, BatchesDoNotChangeWhatIsFound) {
  Context ctx({.seed = 9});
  const Transformer model = random_model(ctx, tiny(40));
  std::vector<Ids> sources = sources_of({5, 17, 1, 9, 30, 3, 3, 0, 12, 8, 2, 25});
  const auto alone = search(ctx, view(model), sources, {.num_beams = 3}, {.batch_tokens = 1});
  for (std::int64_t batch_tokens : {40, 64, 100000}) {
    const auto together = search(ctx, view(model), sources, {.num_beams = 3}, {.batch_tokens = batch_tokens});
    for (std::size_t s = 0; s < sources.size(); ++s) EXPECT_EQ(together[s][0].ids, alone[s][0].ids) << s;
  }
  std::reverse(sources.begin(), sources.end());
  const auto reversed = search(ctx, view(model), sources, {.num_beams = 3});
  for (std::size_t s = 0; s < sources.size(); ++s) EXPECT_EQ(reversed[s][0].ids, alone[sources.size() - 1 - s][0].ids) << s;
}

TEST(Search, TrainingIsLeftAsItWas) {
  Context ctx({.seed = 9});
  const Transformer model = random_model(ctx, tiny(20));
  const std::vector<Ids> sources = sources_of({5, 3});
  const auto before = search(ctx, view(model), sources, {.num_beams = 2});
  ctx.set_training(true);
  const auto during = search(ctx, view(model), sources, {.num_beams = 2});
  EXPECT_TRUE(ctx.training());
  EXPECT_TRUE(ctx.recording());
  for (std::size_t s = 0; s < sources.size(); ++s) EXPECT_EQ(during[s][0].score, before[s][0].score);  // no dropout
}

TEST(Search, AlignmentIsTheCrossAttentionOfOnePass) {
  Context ctx({.seed = 10});
  const Transformer model = random_model(ctx, tiny(20));
  const std::vector<Ids> sources = sources_of({5, 2, 8});
  for (std::int64_t layer : {-1, 0}) {
    const auto found = search(ctx, view(model), sources, {.num_beams = 3, .num_return_sequences = 2},
                              {.alignment = true, .alignment_layer = layer});
    for (std::size_t s = 0; s < sources.size(); ++s)
      for (const Hypothesis& h : found[s]) {
        Ids source = sources[s], input = h.ids;
        source.push_back(eos), input.insert(input.begin(), bos);
        const auto n = static_cast<std::int64_t>(source.size()), m = static_cast<std::int64_t>(input.size());
        TransformerTrace trace;
        model(ctx,
              {.source_ids = Tensor::from<std::int32_t>(ctx, {n}, source),
               .source = Sequences::uniform(1, n),
               .target_ids = Tensor::from<std::int32_t>(ctx, {m}, input),
               .target = Sequences::uniform(1, m)},
              &trace);
        const std::vector<float> weights = trace.decoder.cross_attentions[layer < 0 ? 1 : 0].to_vector<float>();  // [1, 4, m, n]
        ASSERT_EQ(h.alignment.size(), input.size());
        for (std::size_t i = 0; i < input.size(); ++i) {
          ASSERT_EQ(h.alignment[i].size(), source.size());
          for (std::size_t j = 0; j < source.size(); ++j) {
            float mean = 0.0F;
            for (std::size_t head = 0; head < 4; ++head) mean += weights[(head * input.size() + i) * source.size() + j] / 4.0F;
            EXPECT_NEAR(h.alignment[i][j], mean, 1e-5);
          }
        }
      }
  }
  expect_error([&] { search(ctx, view(model), sources, {.num_beams = 5}, {.alignment = true, .alignment_layer = 2}); },
               {"layer 2", "2 layers"});
}

TEST(Search, EarlyStopping) {
  Context ctx;
  const std::vector<Ids> one{{4}};
  auto best = [&](const FakeModel& model, EarlyStopping stopping) {
    return search(ctx, model, one, {.num_beams = 2, .early_stopping = stopping}, {.max_length_a = 0.0, .max_length_b = 9})[0][0];
  };
  // "" (0.4) and "a" (0.35·0.3) are finished when "a b" (0.35·0.6) already has a better mean.
  const FakeModel soon([](const Ids&, const Ids& so_far) {
    if (so_far.size() == 1) return over(0.4F, 0.35F, 0.25F);
    if (so_far == Ids{bos, 4}) return over(0.3F, 0.1F, 0.6F);
    return so_far.size() == 2 ? over(0.2F, 0.4F, 0.4F) : over(1.0F, 0.0F, 0.0F);
  });
  EXPECT_EQ(best(soon, EarlyStopping::yes).ids, Ids{});
  EXPECT_EQ(best(soon, EarlyStopping::no).ids, (Ids{4, 5}));
  EXPECT_NEAR(best(soon, EarlyStopping::no).score, std::log(0.35F * 0.6F) / 3.0F, 1e-6);
  EXPECT_EQ(best(soon, EarlyStopping::never).ids, (Ids{4, 5}));
  // "a b" (0.35·0.1) is bad now, but costs nothing more for as long as it goes on: the best mean in the end.
  const FakeModel late([](const Ids&, const Ids& so_far) {
    if (so_far.size() == 1) return over(0.4F, 0.35F, 0.25F);
    if (so_far == Ids{bos, 4}) return over(0.9F, 0.0F, 0.1F);
    if (so_far == Ids{bos, 5}) return over(0.5F, 0.5F, 0.0F);
    return over(so_far.size() < 10 ? 0.0F : 1.0F, 0.0F, so_far.size() < 10 ? 1.0F : 0.0F);
  });
  EXPECT_EQ(best(late, EarlyStopping::yes).ids, Ids{4});
  EXPECT_EQ(best(late, EarlyStopping::no).ids, Ids{4});
  EXPECT_EQ(best(late, EarlyStopping::never).ids.size(), 9U);
}

// A search ends as soon as nothing that it is asked for can change, and finds what it finds when it goes on.
TEST(Search, EndsWhenNothingBetterCanCome) {
  Context ctx;
  const std::vector<Ids> one{{4, 4, 4}};
  const auto copy = [](const Ids& source, const Ids& so_far) {
    return so_far.size() - 1 < source.size() ? over(0.0005F, 0.999F, 0.0005F) : over(0.999F, 0.0005F, 0.0005F);
  };
  const auto steps = [&](const GenerationConfig& config) {
    const FakeModel model(copy);
    const auto found = search(ctx, model, one, config);
    EXPECT_EQ(found[0][0].ids, (Ids{4, 4, 4}));
    return model.rows.size();
  };
  EXPECT_EQ(steps({.num_beams = 4}), 4U);
  EXPECT_EQ(steps({.num_beams = 4, .early_stopping = EarlyStopping::never}), 4U);
  EXPECT_GT(steps({.num_beams = 4, .num_return_sequences = 4}), 4U);
  // Of scores that may rise nothing is known.
  EXPECT_GT(steps({.num_beams = 4, .sequence_bias = {{{5}, 0.1}}}), 4U);
}

TEST(Search, WhatIsWantedDoesNotChangeWhatIsFound) {
  NOT_ON_A_GPU("rows with the same bits in every batch");
  Context ctx({.seed = 12});
  ctx.set_row_invariant(true);
  const std::vector<Ids> sources = sources_of({3, 6, 1, 9, 4, 12, 2, 7});
  for (std::int64_t sharp = 0; sharp < 6; ++sharp) {
    Transformer model = random_model(ctx, tiny(20));
    model.output->weight.tensor = random_normal(ctx, model.output->weight.shape, 0.0F, 0.4F * static_cast<float>(1 + sharp));
    for (const double penalty : {1.0, 0.0, 0.6, 2.0, -1.0})
      for (const EarlyStopping stopping : {EarlyStopping::no, EarlyStopping::never}) {
        GenerationConfig config{.num_beams = 5, .num_return_sequences = 5, .length_penalty = penalty, .early_stopping = stopping};
        const auto all = search(ctx, view(model), sources, config);
        for (const std::int64_t count : {1, 2, 4}) {
          config.num_return_sequences = count;
          const auto some = search(ctx, view(model), sources, config);
          for (std::size_t s = 0; s < sources.size(); ++s)
            for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
              EXPECT_EQ(some[s][i].ids, all[s][i].ids) << sharp << " " << penalty << " " << s << " " << i;
              EXPECT_EQ(some[s][i].score, all[s][i].score);
            }
        }
      }
  }
}

TEST(Search, LengthsAndRowsThatShrink) {
  Context ctx;
  // A sentence ends after as many words as its source has, if it may.
  const FakeModel copy([](const Ids& source, const Ids& so_far) {
    return so_far.size() - 1 < source.size() ? over(0.1F, 0.6F, 0.3F) : over(0.9F, 0.06F, 0.04F);
  });
  const std::vector<Ids> sources{{4}, {4, 4, 4, 4}, {4, 4}};
  auto lengths = [&](const GenerationConfig& config, const SearchOptions& options = {}) {
    std::vector<std::size_t> n;
    for (const auto& found : search(ctx, copy, sources, config, options)) n.push_back(found[0].ids.size());
    return n;
  };
  using Lengths = std::vector<std::size_t>;
  EXPECT_EQ(lengths({.num_beams = 1}), (Lengths{1, 4, 2}));
  EXPECT_EQ(copy.rows, (Lengths{3, 3, 2, 1, 1}));  // finished sentences are not computed again
  EXPECT_EQ(lengths({.min_new_tokens = 3, .num_beams = 1}), (Lengths{3, 4, 3}));
  EXPECT_EQ(lengths({.num_beams = 1}, {.max_length_a = 0.5, .max_length_b = 0}), (Lengths{0, 2, 1}));
  EXPECT_EQ(lengths({.min_new_tokens = 4, .num_beams = 3}, {.max_length_a = 1.0, .max_length_b = 0}), (Lengths{4, 4, 4}));
  EXPECT_TRUE(search(ctx, copy, {}).empty());
}

TEST(Search, EqualScoresGoToTheLowerId) {
  Context ctx;
  const FakeModel even([](const Ids&, const Ids& so_far) { return so_far.size() < 3 ? over(0.0F, 0.5F, 0.5F) : over(1.0F, 0.0F, 0.0F); });
  const std::vector<Ids> one{{4}};
  const auto found = search(ctx, even, one, {.num_beams = 4, .num_return_sequences = 4})[0];
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].ids, (Ids{4, 4}));
  EXPECT_EQ(found[1].ids, (Ids{4, 5}));
  EXPECT_EQ(found[2].ids, (Ids{5, 4}));
  EXPECT_EQ(found[3].ids, (Ids{5, 5}));
}

TEST(Search, RefusesWhatCannotBe) {
  Context ctx;
  const FakeModel model([](const Ids&, const Ids&) { return over(1.0F, 0.0F, 0.0F); });
  const FakeModel broken([](const Ids&, const Ids&) { return over(NAN, NAN, NAN); });
  const std::vector<Ids> one{{4}}, longest{Ids(101, 4)};
  expect_error([&] { search(ctx, model, one, {.num_beams = 0}); }, {"num_beams is 0", "1 or more"});
  expect_error([&] { search(ctx, model, one, {.num_beams = 2, .num_return_sequences = 3}); }, {"num_return_sequences is 3", "beam of 2"});
  expect_error([&] { search(ctx, model, one, {.num_beams = 5, .length_penalty = NAN}); }, {"length_penalty"});
  expect_error([&] { search(ctx, model, longest); }, {"101 tokens", "at most 100"});
  expect_error([&] { search(ctx, broken, one); }, {"no token is left", "finite"});
}

}  // namespace transformer::test
