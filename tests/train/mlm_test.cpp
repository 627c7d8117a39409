// The task of hidden words: which are chosen, what becomes of them, and that its loss is the model's.
#include "transformer/train/mlm.h"

#include <fstream>
#include <numeric>
#include <set>

#include "support/metrics.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

// Texts of 40 tokens: [CLS] = 2 before and [SEP] = 3 behind 38 others, ids from 5 on.
MlmTokens texts(std::int64_t count, bool whole_word) {
  MlmTokens data;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> ids{2};
    data.roles.push_back(TokenRole::never);
    for (int t = 0; t < 38; ++t) {
      ids.push_back(5 + static_cast<std::int32_t>((7 * i + t) % 20));
      data.roles.push_back(whole_word && t % 3 != 0 ? TokenRole::inside : TokenRole::word);
    }
    ids.push_back(3);
    data.roles.push_back(TokenRole::never);
    data.tokens.add(ids);
  }
  return data;
}

MaskOptions options() {
  MaskOptions out{.mask = 4};
  out.ordinary.resize(20);
  std::iota(out.ordinary.begin(), out.ordinary.end(), 5);
  return out;
}

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(MaskTokens, FifteenPercentOfThemEightyTenTen) {
  constexpr std::int64_t count = 2000;
  const MlmTokens data = texts(count, false);
  const MaskedIds batch = mask_tokens(data, first(count), epoch_stream(1, 0, 2), options());
  ASSERT_EQ(std::ssize(batch.ids), data.tokens.total());
  double masked = 0, other = 0, same = 0;
  for (std::size_t i = 0; i < batch.places.size(); ++i) {
    const auto place = static_cast<std::size_t>(batch.places[i]);
    const std::int32_t was = data.tokens.all()[place], is = batch.ids[place];
    EXPECT_EQ(batch.targets[i], was);
    EXPECT_GE(was, 5) << "special tokens are never chosen";
    ++(is == 4 ? masked : is == was ? same : other);
  }
  const double n = static_cast<double>(batch.places.size()), all = 38.0 * count;
  EXPECT_NEAR(n / all, 0.15, 0.004);
  EXPECT_NEAR(masked / n, 0.8, 0.012);
  EXPECT_NEAR(other / n, 0.1 * 19 / 20, 0.01);  // one in twenty draws is the token itself
  EXPECT_NEAR(same / n, 0.1 + 0.1 / 20, 0.01);
  // What was not chosen is as it was.
  std::set<std::int64_t> chosen(batch.places.begin(), batch.places.end());
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    if (chosen.contains(static_cast<std::int64_t>(i))) continue;
    ASSERT_EQ(batch.ids[i], data.tokens.all()[i]);
  }
}

TEST(MaskTokens, AFunctionOfSeedEpochAndPlace) {
  const MlmTokens data = texts(50, false);
  const auto draw = [&](const std::vector<std::int64_t>& indices, std::uint64_t seed, std::int64_t epoch) {
    return mask_tokens(data, indices, epoch_stream(seed, epoch, 2), options()).ids;
  };
  const auto all = draw(first(50), 1, 3);
  EXPECT_EQ(draw(first(50), 1, 3), all);
  EXPECT_NE(draw(first(50), 1, 4), all);
  EXPECT_NE(draw(first(50), 2, 3), all);
  // Whatever else is in the batch.
  EXPECT_EQ(draw({17}, 1, 3), (std::vector(all.begin() + 17 * 40, all.begin() + 18 * 40)));
}

TEST(MaskTokens, WholeWordsAndAtLeastOne) {
  const MlmTokens data = texts(500, true);
  const auto chosen_of = [&](float probability) {
    MaskOptions o = options();
    o.probability = probability;
    const MaskedIds batch = mask_tokens(data, first(500), epoch_stream(1, 0, 2), o);
    return std::set<std::int64_t>(batch.places.begin(), batch.places.end());
  };
  for (const float probability : {0.15F, 1e-9F}) {
    const auto chosen = chosen_of(probability);
    for (const std::int64_t place : chosen) {
      const std::int64_t in_text = place % 40 - 1, word = in_text / 3 * 3;
      for (std::int64_t t = word; t < std::min<std::int64_t>(word + 3, 38); ++t)
        EXPECT_TRUE(chosen.contains(place - in_text + t)) << "all tokens of a word together";
    }
    if (probability > 0.1F) EXPECT_NEAR(static_cast<double>(chosen.size()) / (500 * 38), 0.15, 0.02);
    else EXPECT_TRUE(chosen.size() >= 2 * 500 && chosen.size() <= 3 * 500) << "one word each";
  }
}

class Mlm : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  static EncoderConfig small(EncoderArch arch = EncoderArch::bert) {
    return {.arch = arch, .d_model = 16, .num_heads = 2, .num_layers = 2, .d_ff = 24, .dropout = 0.0F, .attention_dropout = 0.0F};
  }
  static EncoderVocabulary words() { return {.subwords = EncoderPieces::whitespace}; }
  TemporaryFolder folder_;
};

// Only hidden places go through the head; the loss is what Hugging Face's padded inputs with labels of -100 give.
TEST_F(Mlm, TheLossIsTheModels) {
  const std::string file = write("text", "a b c d e f g\nb c d\nd e f g a b c d e\n\n   \nc d e\n");
  for (const EncoderArch arch : {EncoderArch::bert, EncoderArch::roberta, EncoderArch::distilbert}) {
    Context ctx({.seed = 9});
    MlmTask task(ctx, {.text = {file}, .max_length = 16}, small(arch), words());
    EXPECT_EQ(task.training_texts(), 4);
    EXPECT_EQ(task.plan(2), 1);
    const Batch prepared = task.prepare(0);
    const auto batch = std::any_cast<MaskedIds>(prepared.content);
    EXPECT_EQ(prepared.targets, std::ssize(batch.places));
    constexpr std::size_t longest = 11;
    std::vector<std::int64_t> ids(4 * longest, 0), mask(ids.size(), 0), labels(ids.size(), -100), rows;
    for (std::size_t text = 0, at = 0; text < 4; ++text)
      for (std::int64_t t = 0; t < batch.lengths[text]; ++t, ++at) {
        rows.push_back(static_cast<std::int64_t>(text * longest) + t);
        ids[static_cast<std::size_t>(rows.back())] = batch.ids[at], mask[static_cast<std::size_t>(rows.back())] = 1;
      }
    for (std::size_t i = 0; i < batch.places.size(); ++i)
      labels[static_cast<std::size_t>(rows[static_cast<std::size_t>(batch.places[i])])] = batch.targets[i];
    const auto tensor = [&](const std::vector<std::int64_t>& v) { return Tensor::from<std::int64_t>(ctx, {4, longest}, v); };
    const NamedTensors out = task.model().run(ctx,
                                              {{"input_ids", tensor(ids)}, {"attention_mask", tensor(mask)}, {"labels", tensor(labels)}});
    EXPECT_NEAR(task.loss(ctx, prepared).item(), out.at("loss").item(), 1e-5F);
  }
}

TEST_F(Mlm, LinesArePackedAndWordsFound) {
  Context ctx({.seed = 1});
  const std::string file = write("text", "a b c\nd e\n\nf a b c d e f\n");
  MlmTask packed(ctx, {.text = {file}, .pack = true, .max_length = 8}, small(), words());
  packed.plan(0);
  const auto batch = std::any_cast<MaskedIds>(packed.prepare(0).content);
  std::vector<std::int32_t> ids = batch.ids;
  for (std::size_t i = 0; i < batch.places.size(); ++i) ids[static_cast<std::size_t>(batch.places[i])] = batch.targets[i];
  std::vector<std::string> all;
  for (std::size_t at = 0, text = 0; text < batch.lengths.size(); at += static_cast<std::size_t>(batch.lengths[text++]))
    all.push_back(packed.tokenizer().decode(std::span(ids).subspan(at, static_cast<std::size_t>(batch.lengths[text])), false));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::string>{"[CLS] a b c [SEP] d e [SEP]", "[CLS] f [SEP]", "[CLS] f a b c d e [SEP]"}));
  expect_error([&] { MlmTask(ctx, {.text = {write("empty", "\n \n")}}, small(), words()); }, {"empty", "there is no text"});
  expect_error([&] { MlmTask(ctx, {.text = {file}, .mask_probability = 1.0F}, small(), words()); }, {"mask_probability"});
  expect_error([&] { MlmTask(ctx, {}, small(), words()); }, {"text is missing"});
}

// What is unknown is never hidden, but belongs to the text, at its beginning too.
TEST_F(Mlm, UnknownWordsStayWhereATextBegins) {
  Context ctx({.seed = 1});
  const std::string file = write("text", "a a b b a b\nq a b\n");
  MlmTask task(ctx, {.text = {file}, .pack = true, .max_length = 8}, small(), {.subwords = EncoderPieces::whitespace, .vocab_size = 7});
  task.plan(0);
  const auto batch = std::any_cast<MaskedIds>(task.prepare(0).content);
  std::vector<std::int64_t> lengths = batch.lengths;
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{5, 8}));  // [CLS] [UNK] a b [SEP], and [CLS] a a b b a b [SEP]
  EXPECT_EQ(std::count(batch.ids.begin(), batch.ids.end(), task.tokenizer().unk()), 1);
}

TEST_F(Mlm, LearnsAndOpensAgain) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "one two three four one two three four\n" : "red blue red blue red blue red blue\n";
  const std::string file = write("text", text), save = (folder_ / "model").string();
  Context ctx({.seed = 1});
  MlmTask task(ctx, {.text = {file}, .valid_text = {file}, .max_tokens = 256, .max_length = 16}, small(), words());
  const Metrics before = task.validate(ctx);
  EXPECT_EQ(task.metrics(), names_of(before));
  EXPECT_EQ(before, task.validate(ctx)) << "validation hides the same words every time";
  Trainer(ctx, task,
          {.save_dir = save,
           .max_update = 80,
           .lr = 0.01F,
           .warmup_updates = 10,
           .validate_interval_updates = 80,
           .save_interval_updates = 80,
           .quiet = true})
      .run();
  task.load(ctx, save);
  const Metrics after = task.validate(ctx);
  EXPECT_LT(after[0].second, 0.4 * before[0].second);
  EXPECT_GT(after[2].second, 0.9);
  MlmTask further(ctx, {.text = {file}, .valid_text = {file}, .max_length = 16}, EncoderStart{.from = save});
  EXPECT_EQ(further.validate(ctx), after);
}

}  // namespace
}  // namespace transformer::test
