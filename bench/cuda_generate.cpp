#include "cuda_generate.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "backend/cuda_report.h"
#include "cuda.h"
#include "generate/shared/causal.h"
#include "measure.h"
#include "peers.h"
#include "transformer/generate/generate.h"
#include "transformer/models/encoder_decoder_model.h"
#include "transformer/nn/parameter.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

struct Writing {
  const char* name;
  json model;
  std::int64_t sequences, prompt, tokens, beams;
};

json gpt2_writer() {
  json config = gpt2_124m();
  config["eos_token_id"] = 50256;
  return config;
}
json marian_base() {
  json config = base_translator();
  config.update({{"activation_function", "swish"}, {"vocab_size", 58101}, {"pad_token_id", 58100}, {"decoder_start_token_id", 58100}});
  return config;
}
json llama_1b() {
  return {{"model_type", "llama"},       {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 2048},         {"intermediate_size", 5632},
          {"num_hidden_layers", 22},     {"num_attention_heads", 32},
          {"num_key_value_heads", 4},    {"vocab_size", 32000},
          {"rms_norm_eps", 1e-5},        {"max_position_embeddings", 2048},
          {"tie_word_embeddings", false}};
}

void measure(const Writing& w, bool profile) {
  Context ctx({.device = Device::cuda(), .seed = 1, .precision = DType::bfloat16});
  const std::unique_ptr<Model> model = make_model(w.model);
  initialize(ctx, model->parameters());
  const auto* translator = dynamic_cast<EncoderDecoderModel*>(model.get());
  if (translator != nullptr) dynamic_cast<EncoderDecoderModel&>(*model).complete_fresh(ctx);
  std::unique_ptr<SequenceModel> view;
  const std::int32_t start = w.model.value("decoder_start_token_id", -1);
  if (translator != nullptr)
    view = std::make_unique<EncoderDecoderView>(translator->network, 0, SpecialTokens{.pad = start, .bos = start, .eos = 0});
  else view = std::make_unique<CausalView>(dynamic_cast<const TextModel&>(*model));
  std::mt19937 random(7);
  std::vector<std::vector<std::int32_t>> prompts(static_cast<std::size_t>(w.sequences));
  for (auto& prompt : prompts)
    for (std::int64_t i = 0; i < w.prompt; ++i) prompt.push_back(static_cast<std::int32_t>(2 + random() % 30000));
  GenerationConfig config;
  config.num_beams = w.beams;
  config.max_new_tokens = w.tokens, config.min_new_tokens = w.tokens;  // so long and no shorter, as the peer
  if (translator != nullptr) config.eos_token_id = {0}, config.bad_words_ids = {{start}};
  const auto run = [&] { return generate(ctx, *view, prompts, config, {.seed = 1}); };
  run(), run();
  take_cuda_report(ctx);
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    const double begin = seconds();
    run();
    times.push_back(seconds() - begin);
  }
  const CudaReport report = take_cuda_report(ctx);
  const double steps = 5.0 * static_cast<double>(w.tokens), tokens = static_cast<double>(w.sequences * w.tokens);
  std::printf("%-44s %9.0f tokens/s %8.1f us/step %7.1f launches %5.2f waits a step\n", w.name, tokens / median(times),
              1e6 * median(times) / static_cast<double>(w.tokens), static_cast<double>(report.launches) / steps,
              static_cast<double>(report.waits) / steps);
  if (profile) {
    time_cuda_kernels(ctx, true);
    run();
    for (const CudaReport::Kernel& k : take_cuda_report(ctx).kernels)
      std::printf("    %-24s %6.1f calls %9.1f us a step\n", k.name.c_str(), static_cast<double>(k.calls) / static_cast<double>(w.tokens),
                  1e3 * k.milliseconds / static_cast<double>(w.tokens));
    time_cuda_kernels(ctx, false);
  }
  std::fflush(stdout);
}

}  // namespace

void cuda_generate_bench(bool profile, bool large) {
  std::vector<Writing> works{{"GPT-2 124M, 1 sequence, 256 tokens", gpt2_writer(), 1, 16, 256, 1},
                             {"GPT-2 124M, 64 sequences, 256 tokens", gpt2_writer(), 64, 16, 256, 1},
                             {"Marian base, beam 4, 1 sentence, 64 tokens", marian_base(), 1, 30, 64, 4},
                             {"Marian base, beam 4, 64 sentences, 64 tokens", marian_base(), 64, 30, 64, 4}};
  if (large) works.push_back({"LLaMA 1.1B, 1 sequence, 128 tokens", llama_1b(), 1, 16, 128, 1});
  for (const Writing& w : works) measure(w, profile);
  if (!peers_enabled()) return;
  for (const json& line : run_peer("hf_generate.py", large ? "--large" : ""))
    std::printf("Hugging Face %s, %s: %.0f tokens/s\n", line.value("version", "").c_str(), line.value("work", "").c_str(),
                line.value("tokens_per_s", 0.0));
}

}  // namespace transformer::bench
