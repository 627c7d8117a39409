#include "transformer/generate/generation_config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"

namespace transformer::test {
namespace {

GenerationConfig read(const char* text) { return read_generation_config(nlohmann::json::parse(text)); }

}  // namespace

TEST(GenerationConfig, EveryWayHuggingFaceWritesAValue) {
  const GenerationConfig c = read(R"({
    "eos_token_id": 2, "forced_eos_token_id": 5, "bos_token_id": 1, "pad_token_id": null, "decoder_start_token_id": 7,
    "early_stopping": true, "num_beams": 4, "length_penalty": 2, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3,
    "do_sample": false, "temperature": 0.6, "top_k": 40, "top_p": 0.9, "bad_words_ids": [[58100], [1, 2]], "renormalize_logits": true,
    "sequence_bias": [[[4, 5], -1.5]], "exponential_decay_length_penalty": [5, 1.2], "stop_strings": "end",
    "use_cache": true, "output_attentions": false, "transformers_version": "4.31.0", "_from_model_config": true,
    "num_beam_groups": 1, "diversity_penalty": 0.0, "guidance_scale": 1, "max_time": null, "new_key_of_tomorrow": null})");
  EXPECT_EQ(c.eos_token_id, std::vector<std::int32_t>{2});
  EXPECT_EQ(c.forced_eos_token_id, std::vector<std::int32_t>{5});
  EXPECT_EQ(c.bos_token_id, 1);
  EXPECT_FALSE(c.pad_token_id.has_value());
  EXPECT_EQ(c.decoder_start_token_id, 7);
  EXPECT_EQ(c.early_stopping, EarlyStopping::yes);
  EXPECT_EQ(c.length_penalty, 2.0);
  EXPECT_EQ(c.max_length, 142);
  EXPECT_EQ(c.bad_words_ids.size(), 2U);
  EXPECT_EQ(c.sequence_bias[0].ids, (std::vector<std::int32_t>{4, 5}));
  EXPECT_EQ(c.sequence_bias[0].bias, -1.5);
  EXPECT_EQ(c.exponential_decay_length_penalty, (std::vector<double>{5.0, 1.2}));
  EXPECT_EQ(c.stop_strings, std::vector<std::string>{"end"});
  EXPECT_EQ(read(R"({"eos_token_id": [128001, 128009]})").eos_token_id, (std::vector<std::int32_t>{128001, 128009}));
  EXPECT_EQ(read(R"({"early_stopping": "never"})").early_stopping, EarlyStopping::never);
}

TEST(GenerationConfig, WhatIsNotBuiltIsRefusedByName) {
  expect_error([] { read(R"({"penalty_alpha": 0.6})"); }, {"penalty_alpha", "0.6", "not supported", "0.0"});
  expect_error([] { read(R"({"num_beam_groups": 2})"); }, {"num_beam_groups", "set it to 1"});
  expect_error([] { read(R"({"guidance_scale": 1.5})"); }, {"guidance_scale"});
  expect_error([] { read(R"({"force_words_ids": [[1]]})"); }, {"force_words_ids", "remove"});
  expect_error([] { read(R"({"temprature": 0.5})"); }, {"temprature", "temperature"});
  expect_error([] { read(R"({"top_k": "many"})"); }, {"top_k", "an integer"});
  expect_error([] { read(R"({"eos_token_id": [1, "x"]})"); }, {"eos_token_id[1]"});
  expect_error([] { read(R"({"eos_token_id": 1e300})"); }, {"eos_token_id"});
  expect_error([] { read("[1]"); }, {"expected an object"});
}

TEST(GenerationConfig, OldModelsHaveItInTheirConfig) {
  const auto c = generation_config_of_model(nlohmann::json::parse(R"({
    "model_type": "bart", "d_model": 16, "vocab_size": 20, "eos_token_id": 2, "bos_token_id": 0, "num_beams": 4, "max_length": 62,
    "force_bos_token_to_be_generated": true, "num_beam_groups": 1})"));
  EXPECT_EQ(c.num_beams, 4);
  EXPECT_EQ(c.max_length, 62);
  EXPECT_EQ(c.forced_bos_token_id, 0);
  expect_error([] { generation_config_of_model(nlohmann::json::parse(R"({"num_beam_groups": 3})")); }, {"num_beam_groups"});
}

TEST(GenerationConfig, TheFolderSaysWhichFileCounts) {
  const TemporaryFolder folder;
  EXPECT_TRUE(load_generation_config(folder.path()).eos_token_id.empty());
  write_json(folder / "config.json", {{"eos_token_id", 3}, {"vocab_size", 9}});
  EXPECT_EQ(load_generation_config(folder.path()).eos_token_id, std::vector<std::int32_t>{3});
  write_json(folder / "generation_config.json", {{"bos_token_id", 1}});
  EXPECT_TRUE(load_generation_config(folder.path()).eos_token_id.empty());  // as Hugging Face: config.json is not asked
  write_json(folder / "generation_config.json", {{"bos_token", 1}});
  expect_error([&] { load_generation_config(folder.path()); }, {"generation_config.json", "bos_token"});
}

TEST(GenerationConfig, WrittenAndReadAgain) {
  GenerationConfig c{.max_length = 50, .stop_strings = {"a"}, .num_beams = 3, .early_stopping = EarlyStopping::yes, .temperature = 0.3};
  c.eos_token_id = {4}, c.forced_eos_token_id = {4, 5}, c.bad_words_ids = {{1}, {2, 3}}, c.sequence_bias = {{{1, 2}, 0.5}};
  const nlohmann::json json = generation_json(c);
  EXPECT_EQ(json["eos_token_id"], 4);
  EXPECT_EQ(json["early_stopping"], true);
  EXPECT_EQ(json["sequence_bias"], nlohmann::json::parse("[[[1, 2], 0.5]]"));
  EXPECT_FALSE(json.contains("top_p"));
  EXPECT_EQ(to_json(read_generation_config(json)), to_json(c));
  EXPECT_TRUE(generation_json({}).empty());
}

}  // namespace transformer::test
