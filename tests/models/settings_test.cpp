#include "transformer/models/settings.h"

#include <fstream>

#include "io/shared/json.h"
#include "support/golden.h"
#include "transformer/models/model.h"

namespace transformer::test {
namespace {

using nlohmann::json;

json small_gpt2() {
  return {{"model_type", "gpt2"}, {"vocab_size", 11}, {"n_embd", 8}, {"n_head", 2}, {"n_layer", 1}, {"n_positions", 16}};
}
json small_llama() {
  return {{"model_type", "llama"},        {"vocab_size", 11},        {"hidden_size", 8},
          {"num_attention_heads", 2},     {"intermediate_size", 12}, {"num_hidden_layers", 1},
          {"max_position_embeddings", 16}};
}

void expect_refused(json config, const json& change, const std::vector<std::string>& parts) {
  config.update(change);
  expect_error([&] { make_model(config); }, parts);
}

}  // namespace

TEST(Settings, EveryKeyIsHonouredOrRefusedByName) {
  EXPECT_NO_THROW(make_model(small_gpt2()));
  expect_refused(small_gpt2(), {{"n_layers", 2}}, {"config.json", "unknown key 'n_layers'; did you mean 'n_layer'?"});
  expect_refused(small_gpt2(), {{"n_layers", 2}, {"activation_functon", "relu"}},
                 {"'n_layers'", "'activation_functon'; did you mean 'activation_function'?"});
  expect_refused(small_gpt2(), {{"add_cross_attention", true}}, {"add_cross_attention is true", "only false is possible"});
  expect_refused(small_gpt2(), {{"activation_function", "quick_gelu"}},
                 {"activation_function", "'quick_gelu' is not supported", "gelu_new"});
  expect_refused(small_gpt2(), {{"n_embd", "wide"}}, {"'n_embd'", "expected an integer", "wide"});
  expect_refused(small_gpt2(), {{"n_embd", nullptr}}, {"'n_embd'"});
  expect_refused(small_gpt2(), {{"n_embd", 9}}, {"d_model 9 is not divisible by 2 heads"});
  expect_refused(small_gpt2(), {{"n_layer", 1'000'000'000'000}}, {"n_layer is 1000000000000", "to 2147483647"});
  expect_refused(small_gpt2(), {{"n_layer", 2001}}, {"n_layer is 2001: expected 0 to 2000"});
  expect_refused({{"model_type", "roberta"}}, {{"pad_token_id", std::int64_t{1} << 62}}, {"pad_token_id is 4611686018427387904"});
  expect_refused(small_gpt2(), {{"quantization_config", {{"bits", 4}}}}, {"quantization_config", "quantized weights are not supported"});
  expect_refused(small_gpt2(), {{"pruned_heads", {{"0", {1}}}}}, {"pruned_heads"});
  expect_refused(small_gpt2(), {{"model_type", "gpt3"}}, {"'gpt3' is not one of", "did you mean 'gpt2'?"});
  expect_refused(small_gpt2(), {{"architectures", {"GPT2DoubleHeadsModel"}}}, {"GPT2DoubleHeadsModel", "GPT2LMHeadModel"});
  expect_refused(small_gpt2(), {{std::string(1'000'000, 'x'), 2}}, {"unknown key 'xxx"});  // at once, without a look for what was meant
  expect_error([] { make_model(json::array()); }, {"expected a JSON object"});
  expect_error([] { make_model({{"n_embd", 8}}); }, {"'model_type' is missing"});
}

TEST(Settings, TwoSpellingsOfAKeyAreOne) {
  json config = small_gpt2();
  config["hidden_size"] = 8;
  EXPECT_NO_THROW(make_model(config));
  config["hidden_size"] = 16;
  expect_error([&] { make_model(config); }, {"hidden_size and n_embd are two names of one setting"});
  config.erase("n_embd");
  EXPECT_EQ(make_model(config)->parameters().front().parameter->shape.str(), "[11, 16]");
}

TEST(Settings, ClassesAreCountedByTheirNames) {
  json config = small_gpt2();
  config["architectures"] = {"GPT2ForSequenceClassification"};
  auto rows = [](const json& c) { return make_model(c)->parameters().back().parameter->shape.str(); };
  EXPECT_EQ(rows(config), "[2, 8]");
  config["num_labels"] = 5;
  EXPECT_EQ(rows(config), "[5, 8]");
  config["id2label"] = {{"0", "no"}, {"1", "perhaps"}, {"2", "yes"}};
  EXPECT_EQ(rows(config), "[3, 8]");
  config["problem_type"] = "clustering";
  expect_error([&] { make_model(config); }, {"problem_type", "clustering"});
}

TEST(Settings, RotaryScalingIsHonouredOrRefusedByName) {
  expect_refused(small_llama(), {{"rope_parameters", {{"rope_type", "longrope"}, {"factor", 2.0}}}},
                 {"rope_parameters", "'longrope'", "yarn"});
  expect_refused(small_llama(), {{"rope_scaling", {{"type", "linear"}}}}, {"rope_scaling", "factor is missing"});
  expect_refused(small_llama(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}, {"beta_fast", 1}}}},
                 {"'beta_fast' is not known for the type 'linear'"});
  expect_refused(small_llama(), {{"rope_parameters", {{"rope_theta", -1.0}}}}, {"rope_theta", "more than 1"});
  expect_refused(small_llama(),
                 {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}}},
                 {"high_freq_factor"});
  expect_refused(small_llama(), {{"partial_rotary_factor", 0.5}}, {"partial_rotary_factor", "whole heads"});
  expect_refused(small_llama(), {{"head_dim", 3}}, {"must be even"});
}

TEST(Settings, WhatGeneratesOrDescribesIsNotTheModels) {
  json config = small_llama();
  config.update({{"_name_or_path", "x"},
                 {"temperature", 0.7},
                 {"max_length", 20},
                 {"torch_dtype", "bfloat16"},
                 {"use_cache", false},
                 {"eos_token_id", {1, 2}},
                 {"transformers_version", "4.30.0"},
                 {"pretraining_tp", 2},
                 {"rope_scaling", nullptr}});
  EXPECT_NO_THROW(make_model(config));
}

// config.json comes from anywhere: whatever a key says, the answer is a model or an Error.
TEST(Settings, AnyValueOfAnyKeyGivesAModelOrAnError) {
  const std::vector<json> values{nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 3,
                                 std::int64_t{1} << 24,
                                 std::int64_t{1} << 62,
                                 1e300,
                                 -0.5,
                                 "",
                                 "gelu",
                                 json::array(),
                                 json::array({1}),
                                 json::array({"full_attention", 2}),
                                 json::object(),
                                 {{"rope_type", "yarn"}, {"factor", 1e-300}},
                                 {{"rope_type", "dynamic"}, {"factor", -1}}};
  std::size_t made = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_root())) {
    if (entry.path().filename().string().starts_with("seed-") || !std::filesystem::exists(entry.path() / "config.json")) continue;
    const json config = read_json(entry.path() / "config.json");
    for (const auto& [key, old] : config.items())
      for (const json& value : values) {
        json changed = config;
        changed[key] = value;
        try {
          const auto model = make_model(changed);
          EXPECT_FALSE(model->bindings().empty());
          ++made;
        } catch (const Error&) {
          ++refused;
        }
      }
  }
  EXPECT_GT(made, 0U);
  EXPECT_GT(refused, 0U);
}

}  // namespace transformer::test
