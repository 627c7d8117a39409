// The guarded device: what the host may not do, and that a training never waits for the device.
#include "backend/guarded/counts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "support/toy_images.h"
#include "toys/corpus.h"
#include "toys/shared/labels.h"
#include "toys/shared/languages.h"
#include "transformer/ops/elementwise.h"
#include "transformer/toys/prices.h"
#include "transformer/train/classify.h"
#include "transformer/train/forecast.h"
#include "transformer/train/image.h"
#include "transformer/train/language.h"
#include "transformer/train/mlm.h"
#include "transformer/train/tag.h"
#include "transformer/train/trainer.h"
#include "transformer/train/translate.h"

namespace transformer::test {
namespace {

void touch(const std::byte* at) { static_cast<void>(*static_cast<const volatile std::byte*>(at)); }

TEST(Guarded, TheHostCannotReachItsMemory) {
  Context ctx({.device = Device::guarded()});
  Tensor t = Tensor::from<float>(ctx, {3}, {1.0F, 2.0F, 3.0F});
  expect_error([&] { (void)t.data<float>(); }, {"[3]", "guarded", "to_vector()"});
  expect_error([&] { (void)t.mutable_data<float>(); }, {"[3]", "guarded"});
  EXPECT_EQ(add(ctx, t, t).to_vector<float>(), (std::vector<float>{2.0F, 4.0F, 6.0F}));
  EXPECT_EQ(t.to_host().data<float>()[2], 3.0F);
  EXPECT_EQ(t.to_host().to(ctx).device(), Device::guarded());
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(touch(t.raw()), "");
}

TEST(Guarded, IntegersFromTheHostStayKnown) {
  Context ctx({.device = Device::guarded()});
  const std::int64_t before = guarded_counts().waits;
  Tensor ids = Tensor::from<std::int64_t>(ctx, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(ids.row_block(1, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(guarded_counts().waits, before);
  static_cast<void>(ids.mutable_raw());  // someone writes: what was known is old
  EXPECT_EQ(ids.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(guarded_counts().waits, before + 1);
}

struct WaitCase {
  std::string name;
  std::function<std::unique_ptr<Task>(Context& ctx, const TemporaryFolder& folder)> make;
};

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return (folder / name).string();
}

EncoderConfig small_encoder() { return {.d_model = 16, .num_heads = 2, .num_layers = 1, .d_ff = 24, .dropout = 0.1F}; }
EncoderVocabulary whole_words() { return {.subwords = EncoderPieces::whitespace}; }

std::string songs() {
  std::string text;
  for (const std::string& song : song_texts(200)) text += song + "\n";
  return text;
}

const std::vector<WaitCase> tasks{
    {"classify",
     [](Context& ctx, const TemporaryFolder& folder) {
  std::string text;
  for (const BracketText& t : bracket_texts(200)) text += t.text + (t.balanced ? "\tyes\n" : "\tno\n");
  ClassifyConfig data{.data = write(folder, "train.tsv", text), .max_length = 64};
  data.max_tokens = 300;
  return std::make_unique<ClassifyTask>(ctx, data, small_encoder(), whole_words());
     }},
    {"classify_numbers",
     [](Context& ctx, const TemporaryFolder& folder) {
  std::string text;
  for (const ShoppingText& t : shopping_texts(200)) text += fmt::format("{}\t{}\n", t.text, t.total);
  ClassifyConfig data{.data = write(folder, "numbers.tsv", text), .max_length = 64};
  data.max_tokens = 300;
  return std::make_unique<ClassifyTask>(ctx, data, small_encoder(), whole_words());
     }},
    {"tag",
     [](Context& ctx, const TemporaryFolder& folder) {
  std::string text;
  for (const TaggedText& t : name_texts(200)) {
    for (std::size_t i = 0; i < t.words.size(); ++i) text += t.words[i] + " " + t.tags[i] + "\n";
    text += "\n";
  }
  TagConfig data;
  data.data = write(folder, "tagged.conll", text);
  data.max_tokens = 300;
  return std::make_unique<TagTask>(ctx, data, small_encoder(), whole_words());
     }},
    {"mlm",
     [](Context& ctx, const TemporaryFolder& folder) {
  MlmConfig data{.text = {write(folder, "songs", songs())}};
  data.max_tokens = 300;
  return std::make_unique<MlmTask>(ctx, data, small_encoder(), whole_words());
     }},
    {"lm",
     [](Context& ctx, const TemporaryFolder& folder) {
  return std::make_unique<LanguageTask>(ctx, LanguageConfig{.text = {write(folder, "songs", songs())}, .context = 16, .batch_size = 8},
                                        LanguageModelConfig{.d_model = 16, .num_heads = 2, .num_layers = 2, .dropout = 0.1F});
     }},
    {"image",
     [](Context& ctx, const TemporaryFolder& folder) {
  write_idx([&](const std::string& name, const std::string& bytes) { write(folder, name, bytes); }, ToyImages(240), ToyImages(40, 2));
  ImageSettings settings;
  settings.source.idx = folder.path().string();
  settings.images.batch_size = 16;
  settings.images.mixup = 0.4F;
  return std::make_unique<ImageTask>(ctx, settings,
                                     ImageModelConfig{.patch_size = 4, .d_model = 16, .num_heads = 2, .num_layers = 2, .d_ff = 32});
     }},
    {"forecast",
     [](Context& ctx, const TemporaryFolder&) {
  ForecastModelConfig model;
  apply_preset("documents", model);
  return std::make_unique<ForecastTask>(ctx, ForecastConfig{.series = toy_prices(), .batch_size = 16}, model);
     }},
    {"translate",
     [](Context& ctx, const TemporaryFolder& folder) {
  std::string source, target;
  for (const ToyPair& p : ToyCorpus(300).training()) source += p.source + "\n", target += p.target + "\n";
  TranslateConfig data;
  data.source = write(folder, "train.en", source), data.target = write(folder, "train.ko", target);
  data.vocab_size = 400, data.max_tokens = 300;
  return std::make_unique<TranslateTask>(
      ctx, data, TransformerConfig{.d_model = 16, .num_heads = 2, .d_ff = 24, .num_layers = 1, .max_len = 60, .dropout = 0.1F});
     }},
    };

class GuardedTask : public testing::TestWithParam<WaitCase> {};

// The device's answers are there before they are asked for, whatever the task does in a step; with averages of the weights too.
TEST_P(GuardedTask, NeverWaitsInAStep) {
  const TemporaryFolder folder;
  Context ctx({.device = Device::guarded(), .threads = 1, .seed = 1});
  const std::unique_ptr<Task> task = GetParam().make(ctx, folder);
  const std::int64_t batches = task->plan(0);
  ASSERT_GE(batches, 6) << "too few updates to see anything";
  Trainer trainer(
      ctx, *task,
      {.save_dir = (folder / "model").string(), .max_epoch = 1, .lr = 1e-3F, .warmup_updates = 2, .ema_decay = 0.9F, .quiet = true});
  std::vector<GuardedCounts> counts;
  trainer.on_step([&](const TrainStep& step) {
    EXPECT_TRUE(std::isfinite(step.loss));
    counts.push_back(guarded_counts());
  });
  trainer.run();
  ASSERT_EQ(std::ssize(counts), batches);
  // Not the first, nor the last ones, which are waited for at the end of the epoch.
  const std::size_t last = counts.size() - 4;
  EXPECT_EQ(counts[last].waits, counts[1].waits);
  EXPECT_GT(counts[last].launches, counts[1].launches);
}

INSTANTIATE_TEST_SUITE_P(Tasks, GuardedTask, testing::ValuesIn(tasks), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transformer::test
