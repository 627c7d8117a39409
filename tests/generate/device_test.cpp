// Generation where the host cannot reach the logits: the same tokens as on the CPU, with one copy each way in a step; and work that is
// recorded gives the bits of work that is asked for.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "backend/cuda_report.h"
#include "backend/guarded/counts.h"
#include "backend/kernels.h"
#include "generate/shared/causal.h"
#include "transformer/generate/generate.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/nn/parameter.h"

namespace transformer::test {
namespace {

using nlohmann::json;
using Prompts = std::vector<std::vector<std::int32_t>>;

json small_model(const std::string& family) {
  if (family == "gpt2")
    return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
            {"n_embd", 64},         {"n_head", 4},
            {"n_layer", 2},         {"n_positions", 200},
            {"vocab_size", 301},    {"eos_token_id", 1}};
  if (family == "llama")
    return {{"model_type", "llama"},
            {"architectures", {"LlamaForCausalLM"}},
            {"hidden_size", 64},
            {"intermediate_size", 96},
            {"num_hidden_layers", 2},
            {"num_attention_heads", 4},
            {"num_key_value_heads", 2},
            {"vocab_size", 301},
            {"max_position_embeddings", 200},
            {"eos_token_id", 1},
            {"rms_norm_eps", 1e-5}};
  if (family == "falcon")
    return {{"model_type", "falcon"},
            {"architectures", {"FalconForCausalLM"}},
            {"hidden_size", 64},
            {"num_attention_heads", 4},
            {"num_hidden_layers", 2},
            {"vocab_size", 301},
            {"alibi", true},
            {"multi_query", false},
            {"new_decoder_architecture", false},
            {"parallel_attn", false},
            {"eos_token_id", 1},
            {"bos_token_id", 2}};
  json seq2seq{{"d_model", 64}, {"vocab_size", 301}, {"eos_token_id", 1}, {"pad_token_id", 0}, {"decoder_start_token_id", 0}};
  if (family == "t5") {
    seq2seq.update({{"model_type", "t5"},
                    {"architectures", {"T5ForConditionalGeneration"}},
                    {"d_ff", 96},
                    {"d_kv", 16},
                    {"num_heads", 4},
                    {"num_layers", 2},
                    {"num_decoder_layers", 2}});
    return seq2seq;
  }
  seq2seq.update({{"model_type", "marian"},
                  {"architectures", {"MarianMTModel"}},
                  {"encoder_layers", 2},
                  {"decoder_layers", 2},
                  {"encoder_attention_heads", 4},
                  {"decoder_attention_heads", 4},
                  {"encoder_ffn_dim", 96},
                  {"decoder_ffn_dim", 96},
                  {"max_position_embeddings", 200}});
  return seq2seq;
}

struct Writer {
  Context ctx;
  std::unique_ptr<Model> model;
  std::unique_ptr<SequenceModel> view;

  Writer(const std::string& family, Device device, DType precision = DType::float32)
      : ctx({.device = device, .seed = 5, .precision = precision}), model(make_model(small_model(family))) {
    initialize(ctx, model->parameters());
    if (auto* pair = dynamic_cast<EncoderDecoderModel*>(model.get())) {
      pair->complete_fresh(ctx);
      view = std::make_unique<EncoderDecoderView>(pair->network, 1, SpecialTokens{.pad = 0, .bos = 0, .eos = 1});
    } else {
      view = std::make_unique<CausalView>(dynamic_cast<const TextModel&>(*model));
    }
  }
  std::vector<std::vector<Generated>> write(const GenerationConfig& config, std::size_t prompts) {
    Prompts all;
    for (std::size_t i = 0; i < prompts; ++i) {
      auto& prompt = all.emplace_back();
      for (std::size_t j = 0; j < 3 + 5 * i % 7; ++j) prompt.push_back(static_cast<std::int32_t>(2 + (17 * i + 5 * j) % 299));
    }
    return generate(ctx, *view, all, config, {.seed = 11});
  }
};

std::map<std::string, GenerationConfig> ways() {
  std::map<std::string, GenerationConfig> all;
  GenerationConfig c;
  c.max_new_tokens = 20, c.eos_token_id = {1}, c.num_beams = 1;
  all["greedy"] = c;
  all["long"] = c, all["long"].max_new_tokens = 135;
  GenerationConfig beam = c;
  beam.num_beams = 4, beam.no_repeat_ngram_size = 3, beam.suppress_tokens = {7, 8};
  all["beam"] = beam;
  GenerationConfig ends = c;
  ends.forced_eos_token_id = {1}, ends.min_new_tokens = 8, ends.max_new_tokens = 12;
  all["forced end"] = ends;
  GenerationConfig drawn = c;
  drawn.do_sample = true, drawn.temperature = 0.9, drawn.top_k = 20, drawn.top_p = 0.9, drawn.num_return_sequences = 3;
  all["drawn"] = drawn;
  GenerationConfig from_all = drawn;
  from_all.top_k = 0, from_all.repetition_penalty = 1.2, from_all.max_new_tokens = 12;
  all["drawn from all"] = from_all;
  return all;
}

std::vector<std::vector<std::vector<std::int32_t>>> ids_in(const std::vector<std::vector<Generated>>& found) {
  std::vector<std::vector<std::vector<std::int32_t>>> ids;
  for (const auto& prompt : found) {
    ids.emplace_back();
    for (const Generated& g : prompt) ids.back().push_back(g.ids);
  }
  return ids;
}

class DeviceGeneration : public testing::TestWithParam<std::string> {};

void expect_the_cpus(Device device, const std::string& family) {
  Writer far(family, device), near(family, Device::cpu());
  for (const auto& [name, config] : ways())
    for (const std::size_t prompts : {1, 3}) {
      if (name == "long" && prompts > 1) continue;
      const auto a = far.write(config, prompts), b = near.write(config, prompts);
      EXPECT_EQ(ids_in(a), ids_in(b)) << family << ", " << name << ", " << prompts << " prompts on " << device.str();
    }
}

TEST_P(DeviceGeneration, GuardedTokensAreTheCpus) { expect_the_cpus(Device::guarded(), GetParam()); }

TEST_P(DeviceGeneration, CudaTokensAreTheCpus) {
  if (cuda_devices() == 0) GTEST_SKIP() << "there is no GPU";
  expect_the_cpus(Device::cuda(), GetParam());
}

TEST_P(DeviceGeneration, RecordedStepsGiveTheBitsOfThoseAskedFor) {
  if (cuda_devices() == 0) GTEST_SKIP() << "there is no GPU";
  for (const DType precision : {DType::float32, DType::bfloat16}) {
    Writer writer(GetParam(), Device::cuda(), precision);
    GenerationConfig config;
    config.max_new_tokens = 150, config.num_beams = 3, config.num_return_sequences = 3;
    for (const std::size_t prompts : {1, 9}) {
      take_cuda_report(writer.ctx);
      const auto recorded = writer.write(config, prompts);
      const std::int64_t launches = take_cuda_report(writer.ctx).launches;
      time_cuda_kernels(writer.ctx, true);  // kernels that are timed are not recorded
      const auto asked = writer.write(config, prompts);
      EXPECT_LT(launches, take_cuda_report(writer.ctx).launches / 2);
      time_cuda_kernels(writer.ctx, false);
      ASSERT_EQ(ids_in(recorded), ids_in(asked));
      for (std::size_t i = 0; i < asked.size(); ++i)
        for (std::size_t j = 0; j < asked[i].size(); ++j) EXPECT_EQ(recorded[i][j].token_scores, asked[i][j].token_scores);
    }
  }
}

TEST_P(DeviceGeneration, AStepIsOneCopyEachWay) {
  Writer writer(GetParam(), Device::guarded());
  GenerationConfig config;
  config.num_beams = 2;
  const auto counted = [&](std::int64_t tokens) {
    config.max_new_tokens = tokens;
    const GuardedCounts before = guarded_counts();
    writer.write(config, 2);
    const GuardedCounts after = guarded_counts();
    return std::pair{after.waits - before.waits, after.uploads - before.uploads};
  };
  counted(10);
  const auto [waits, uploads] = counted(20);
  const auto [more_waits, more_uploads] = counted(30);
  EXPECT_EQ(more_waits - waits, 10);
  // The step, and the sequences of one token, which only this device asks for again.
  if (GetParam() == "gpt2" || GetParam() == "llama") {
    EXPECT_LE(more_uploads - uploads, 2 * 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DeviceGeneration, testing::Values("gpt2", "llama", "falcon", "t5", "marian"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transformer::test
