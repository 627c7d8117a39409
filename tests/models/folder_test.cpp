// A model's folder: what was saved is read back, and what does not belong there is refused.
#include <fstream>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/io/config.h"
#include "transformer/models/classic.h"

namespace transformer::test {

TEST(ModelFolder, GivesTheSameModelBack) {
  const TemporaryFolder folder;
  Context ctx({.seed = 3});
  Transformer model(
      {.d_model = 16, .num_heads = 2, .d_ff = 24, .num_layers = 1, .src_vocab_size = 11, .tgt_vocab_size = 13, .norm = NormPlace::pre});
  initialize(ctx, model);
  save_transformer(model, folder.path());
  const auto read = load_transformer(ctx, folder.path());
  EXPECT_EQ(to_json(read->config), to_json(model.config));
  const auto before = parameters(model), after = parameters(*read);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(before[i].parameter->tensor.to_vector<float>(), after[i].parameter->tensor.to_vector<float>()) << before[i].name;
}

TEST(ModelFolder, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  Context ctx;
  auto with = [&](const char* text) { std::ofstream(folder.path() / "config.json") << text; };
  auto load = [&] { load_transformer(ctx, folder.path()); };
  expect_error(load, {"config.json"});
  with(R"({"model_type": "bert"})");
  expect_error(load, {"config.json", "model_type", "bert", "transformer"});
  with(R"({"d_modell": 64})");
  expect_error(load, {"config.json", "d_modell", "did you mean 'd_model'"});
  with("[1]");
  expect_error(load, {"config.json", "object"});
  with(R"({"d_model": 16, "num_heads": 2})");
  expect_error(load, {"model.safetensors"});
}

}  // namespace transformer::test
