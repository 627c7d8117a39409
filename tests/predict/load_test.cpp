// Folders opened through load<…>, and what save_model writes for them.
#include "transformer/predict/load.h"

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "support/tiny_tokenizer.h"
#include "transformer/predict/classifier.h"
#include "transformer/predict/embedder.h"
#include "transformer/predict/forecaster.h"
#include "transformer/predict/generator.h"
#include "transformer/predict/translator.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

class Load : public testing::Test {
 protected:
  // A case of the reference that has a tokenizer.
  std::filesystem::path with_tokenizer(const std::string& name) const {
    copy_with_tokenizer(golden_cases(name).front(), folder_ / name, tiny_tokenizer(false));
    return folder_ / name;
  }
  TemporaryFolder folder_;
  Context ctx_;
};

TEST_F(Load, OneWayForEveryUse) {
  const auto gpt2 = with_tokenizer("gpt2"), bert = with_tokenizer("bert-cls");
  EXPECT_EQ(load<Generator>(ctx_, gpt2).generate(ctx_, "Once upon", {.max_new_tokens = 5, .temperature = 0.0}),
            Generator::load(ctx_, gpt2).generate(ctx_, "Once upon", {.max_new_tokens = 5, .temperature = 0.0}));
  EXPECT_TRUE(load<Generator>(ctx_, gpt2, GeneratorOptions{.text = false}).tokenizers().target == nullptr);
  EXPECT_EQ(load<Classifier>(ctx_, bert).kind(), Classifier::Kind::texts);
  EXPECT_GT(load<Embedder>(ctx_, gpt2).size(), 0);
  EXPECT_GT(load<Forecaster>(ctx_, golden_cases("patchtst").front()).horizon(), 0);
  expect_error([&] { load<Translator>(ctx_, gpt2); }, {"does not translate"});
  expect_error([&] { load<Generator>(ctx_, bert); }, {"transformer classify"});
}

TEST_F(Load, TextGoesInAndTextComesOut) {
  const Generator generator = load<Generator>(ctx_, with_tokenizer("gpt2"));
  const std::vector<std::vector<std::int32_t>> prompts{generator.encode("Once upon")};
  const GenerationConfig config = with_wishes(generator.config(), {.max_new_tokens = 6, .temperature = 0.9});
  EXPECT_EQ(generator.generate(ctx_, "Once upon", {.max_new_tokens = 6, .temperature = 0.9}, {.seed = 3}),
            generator.generate(ctx_, prompts, config, {.seed = 3})[0][0].text);
}

// A model that was loaded, changed and saved opens for its use: its tokenizer comes along.
TEST_F(Load, WhatIsSavedOpensAgain) {
  const auto from = with_tokenizer("gpt2");
  const std::unique_ptr<Model> model = load_model(ctx_, from);
  const std::vector<NamedParameter> all = parameters(*model);
  EXPECT_EQ(count(all), count(model->parameters()));
  Adam(ctx_, all).zero_gradients();  // leaves, as an optimizer wants them
  save_model(ctx_, *model, folder_ / "copy");
  EXPECT_EQ(load<Generator>(ctx_, folder_ / "copy").generate(ctx_, "Once upon", {.max_new_tokens = 5, .temperature = 0.0}),
            load<Generator>(ctx_, from).generate(ctx_, "Once upon", {.max_new_tokens = 5, .temperature = 0.0}));
  save_model(ctx_, *model, from);  // over itself
  EXPECT_TRUE(std::filesystem::exists(from / "tokenizer.json"));
  std::filesystem::remove(from / "tokenizer.json");
  expect_error([&] { save_model(ctx_, *model, folder_ / "third"); }, {"tokenizer.json", "is gone"});
}

}  // namespace
}  // namespace transformer::test
