#include "transformer/train/language.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "support/metrics.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "train/language_text.h"
#include "transformer/autograd/autograd.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

class Language : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  // "abc…xyz" over and over, 1000 characters.
  std::string alphabet() const {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
    return write("alphabet.txt", text);
  }
  TemporaryFolder folder_;
};

const LanguageModelConfig tiny{.d_model = 16, .num_heads = 2, .num_layers = 2};

WindowBatch batch_of(const LanguageTask& task, std::int64_t index) { return std::any_cast<WindowBatch>(task.prepare(index).content); }

TEST_F(Language, TargetsAreTheNextTokensAndBatchesAFunctionOfSeedAndEpoch) {
  const std::string text = alphabet();
  for (const WindowOrder windows : {WindowOrder::random, WindowOrder::shuffled}) {
    const LanguageConfig config{.text = {text}, .valid_split = 0.0, .context = 10, .batch_size = 4, .windows = windows};
    Context ctx({.seed = 3});
    LanguageTask task(ctx, config, tiny), other(ctx, config, tiny);
    const std::int64_t batches = task.plan(2);
    EXPECT_GE(batches, 25 - 1);  // 99 windows side by side, less an offset
    EXPECT_LE(batches, 25);
    std::set<std::vector<std::int32_t>> seen;
    for (std::int64_t i = 0; i < batches; ++i) {
      const WindowBatch b = batch_of(task, i);
      EXPECT_EQ(b.lengths.size() * 10, b.ids.size());
      EXPECT_TRUE(i + 1 == batches || b.lengths.size() == 4);
      for (std::size_t j = 0; j < b.ids.size(); ++j) {
        EXPECT_EQ(b.targets[j], (b.ids[j] + 1) % 26);
        EXPECT_TRUE(j % 10 == 0 || b.ids[j] == b.targets[j - 1]);
      }
      seen.insert(b.ids);
    }
    EXPECT_GT(seen.size(), 15U);
    other.plan(0);
    static_cast<void>(other.prepare(7));
    EXPECT_EQ(other.plan(2), batches);
    EXPECT_EQ(batch_of(other, 5).ids, batch_of(task, 5).ids);
    other.plan(3);
    EXPECT_NE(batch_of(other, 5).ids, batch_of(task, 5).ids);
  }
}

// Side by side, no token is a target twice.
TEST_F(Language, ShuffledWindowsDoNotOverlap) {
  std::string text;
  for (int i = 0; i < 103; ++i) text += fmt::format("{}", char('!' + i % 90));  // 90 different ones, then the first again
  Context ctx;
  LanguageTask task(
      ctx, {.text = {write("text", text)}, .valid_split = 0.0, .context = 8, .batch_size = 1, .windows = WindowOrder::shuffled}, tiny);
  for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
    std::multiset<std::int32_t> targets;
    const std::int64_t batches = task.plan(epoch);
    for (std::int64_t i = 0; i < batches; ++i)
      for (const std::int32_t id : batch_of(task, i).targets) targets.insert(id);
    EXPECT_GE(targets.size(), 88U);
    for (const std::int32_t id : targets) EXPECT_LE(targets.count(id), id < 13 ? 2U : 1U) << id;
  }
}

// nanoGPT's split: the first 90 % of the characters, the last 10 %.
TEST_F(Language, TheEndOfTheTextIsKeptForValidation) {
  const std::string text = write("text", "éa" + std::string(93, 'x') + "yz한éa");  // 100 characters, 104 bytes
  Context ctx;
  const LanguageTask task(ctx, {.text = {text}, .context = 4, .batch_size = 2}, tiny);
  EXPECT_EQ(task.training().size(), 90);
  EXPECT_EQ(task.validation().size(), 10);
  EXPECT_EQ(task.training_report().text_bytes, 91);
  EXPECT_EQ(task.validation_report().text_bytes, 13);
  EXPECT_EQ(task.validation_report().unknown, 3);  // y, z and 한 are not in the training text
  // By documents, too: the token between them is not a character.
  const LanguageTask lines(
      ctx,
      {.text = {write("lines", "aaaa\nbbbb\n\ncc\n")}, .valid_split = 0.5, .documents = Documents::line, .context = 3, .batch_size = 1},
      tiny);
  EXPECT_EQ(lines.training_report().documents, 2);
  EXPECT_EQ(lines.training().size(), 4 + 1 + 1);
  EXPECT_EQ(lines.validation().size(), 3 + 1 + 2);
}

// The loss of a row is what run() gives for its windows, weighted by their targets.
TEST_F(Language, ScoreIsTheMeanOverAllTokens) {
  Context ctx({.seed = 5});
  const auto model = make_model(language_model_json(tiny, 11, 8, -1));
  initialize(ctx, model->parameters());
  const auto& text = dynamic_cast<const TextModel&>(*model);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(i * i % 11);
  const TextScore score = score_tokens(ctx, text, TokenRow(ids, 40), 7);
  double sum = 0.0;
  for (const auto& [begin, end] : {std::pair{0, 8}, std::pair{7, 15}, std::pair{14, 20}}) {  // inputs and the last target
    const std::vector<std::int64_t> window(ids.begin() + begin, ids.begin() + end);
    const Tensor t = Tensor::from<std::int64_t>(ctx, {1, end - begin}, window);
    sum += static_cast<double>(model->run(ctx, {{"input_ids", t}, {"labels", t}}).at("loss").item()) * (end - begin - 1);
  }
  EXPECT_NEAR(score.loss, sum / 19, 1e-5);
  EXPECT_EQ(score.tokens, 20);
  EXPECT_NEAR(score.perplexity(), std::exp(score.loss), 1e-9);
  EXPECT_NEAR(score.bits_per_byte(), score.loss / std::log(2.0) * 20 / 40, 1e-9);
  EXPECT_TRUE(std::isnan(score_tokens(ctx, text, TokenRow(ids, 0), 7).bits_per_byte()));
  expect_error([&] { score_tokens(ctx, text, TokenRow({1}, 1), 7); }, {"1 tokens"});
}

// With a mask between documents each is as if it stood alone; without it is not.
TEST_F(Language, DocumentsOfAWindowMayBeApart) {
  for (const LanguageArch arch : {LanguageArch::gpt2, LanguageArch::llama}) {
    LanguageModelConfig config = tiny;
    config.arch = arch;
    Context ctx({.seed = 7});
    const auto model = make_model(language_model_json(config, 11, 16, 10));
    initialize(ctx, model->parameters());
    const auto& text = dynamic_cast<const TextModel&>(*model);
    const TokenRow whole({1, 2, 3, 10, 4, 5, 6, 7, 10, 8, 9, 1}, 12), first({1, 2, 3, 10}, 4), second({10, 4, 5, 6, 7, 10}, 5),
        third({10, 8, 9, 1}, 3);
    const double apart = score_tokens(ctx, text, first, 16).loss * 3 + score_tokens(ctx, text, second, 16).loss * 5 +
        score_tokens(ctx, text, third, 16).loss * 3;
    EXPECT_NEAR(score_tokens(ctx, text, whole, 16, 10).loss, apart / 11, 1e-5);
    EXPECT_GT(std::abs(score_tokens(ctx, text, whole, 16).loss - apart / 11), 1e-4);
  }
}

// As GPT-2 and LLaMA are drawn by Hugging Face.
TEST_F(Language, FreshWeightsHaveTheFamilysScale) {
  for (const LanguageArch arch : {LanguageArch::gpt2, LanguageArch::llama}) {
    Context ctx({.seed = 1});
    const auto model = make_model(language_model_json({.arch = arch, .d_model = 64, .num_heads = 4, .num_layers = 8}, 100, 32, -1));
    initialize(ctx, model->parameters());
    for (const auto& [name, p] : model->parameters()) {
      if (p->shape.rank() < 2) continue;
      double squares = 0.0;
      for (const float v : p->tensor.to_vector<float>()) squares += static_cast<double>(v) * v;
      const bool residual = arch == LanguageArch::gpt2 && name.find(".out.weight") != std::string::npos;
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(p->shape.numel())), residual ? 0.005 : 0.02, residual ? 4e-4 : 1e-3) << name;
    }
  }
}

TEST_F(Language, LearnsTheAlphabet) {
  for (const LanguageArch arch : {LanguageArch::gpt2, LanguageArch::llama}) {
    Context ctx({.threads = 1, .seed = 1});
    LanguageModelConfig model = tiny;
    model.arch = arch;
    LanguageTask task(ctx, {.text = {alphabet()}, .context = 16, .batch_size = 8}, model);
    const double before = task.validate(ctx)[0].second;
    EXPECT_EQ(task.metrics(), names_of(task.validate(ctx)));
    EXPECT_NEAR(before, std::log(28.0), 0.1);  // 26 letters and two special tokens, none known
    const TrainResult result = Trainer(ctx, task,
                                       {.save_dir = (folder_ / (arch == LanguageArch::gpt2 ? "gpt2" : "llama")).string(),
                                        .max_update = 100,
                                        .lr = 0.01F,
                                        .warmup_updates = 5,
                                        .quiet = true})
                                   .run();
    EXPECT_LT(result.best[0].second, 0.5);
    EXPECT_EQ(result.best[2].first, "bits_per_byte");
  }
}

TEST_F(Language, WhatCannotBeIsSaidBeforeAnythingIsDone) {
  Context ctx;
  const std::string text = alphabet();
  auto refused = [&](LanguageConfig config, const std::vector<std::string>& parts, const LanguageModelConfig& model = tiny) {
    expect_error([&] { LanguageTask(ctx, config, model); }, parts);
  };
  refused({.context = 8}, {"either as `text` or as a file of tokens"});
  refused({.text = {text}, .bin = "x.bin"}, {"either as `text` or as a file of tokens"});
  refused({.text = {text}, .context = 0}, {"context is 0"});
  refused({.text = {text}, .batch_size = -1}, {"batch_size is -1"});
  refused({.text = {text}, .valid_split = 1.0}, {"valid_split is 1"});
  refused({.text = {text}, .context = 900}, {"the training text has 900 tokens", "needs 901"});
  refused({.text = {text}, .vocab = "chars"}, {"vocab is 'chars'", "char, byte, bpe, unigram"});
  refused({.text = {write("empty", "")}}, {"empty", "there is no text"});
  refused({.text = {text}, .valid_text = {(folder_ / "none").string()}}, {"none", "cannot open"});
  refused({.bin = text, .vocab = "char"}, {"vocab is 'char'", "give the tokenizer"});
  refused({.bin = text, .vocab = "byte"}, {"alphabet.txt", "is not a file of tokens"});
  refused({.text = {text}, .context = 8}, {"d_model is 16: expected a multiple of num_heads, 3"}, {.d_model = 16, .num_heads = 3});
  refused({.text = {text}, .context = 8}, {"dropout", "LLaMA", "attention_dropout"}, {.arch = LanguageArch::llama, .dropout = 0.1F});
  refused({.text = {text}, .context = 8}, {"num_kv_heads is 1"}, {.num_kv_heads = 1});
  refused({.text = {text}, .context = 8}, {"dropout is 1.5"}, {.dropout = 1.5F});
}

}  // namespace
}  // namespace transformer::test
