#include "cuda.h"

#include <cstdio>
#include <random>

#include "backend/cuda_report.h"
#include "base_step.h"
#include "measure.h"
#include "transformer/generate/generate.h"
#include "transformer/models/model.h"
#include "transformer/nn/parameter.h"
#include "transformer/ops/random.h"
#include "transformer/train/optimizer.h"

namespace transformer::bench {

using nlohmann::json;

json base_translator() {
  return {{"model_type", "marian"},
          {"architectures", {"MarianMTModel"}},
          {"d_model", 512},
          {"encoder_layers", 6},
          {"decoder_layers", 6},
          {"encoder_attention_heads", 8},
          {"decoder_attention_heads", 8},
          {"encoder_ffn_dim", 2048},
          {"decoder_ffn_dim", 2048},
          {"activation_function", "relu"},
          {"dropout", 0.1},
          {"attention_dropout", 0.1},
          {"activation_dropout", 0.1},
          {"vocab_size", 37000},
          {"pad_token_id", 36999},
          {"eos_token_id", 0},
          {"decoder_start_token_id", 36999},
          {"max_position_embeddings", 512},
          {"scale_embedding", true}};
}
json gpt2_124m() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 768},        {"n_head", 12},
          {"n_layer", 12},        {"n_positions", 1024},
          {"vocab_size", 50257},  {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},    {"attn_pdrop", 0.0}};
}

namespace {

json vit_base() {
  json labels;
  for (int i = 0; i < 1000; ++i) labels[std::to_string(i)] = fmt::format("class {}", i);
  return {{"model_type", "vit"},        {"architectures", {"ViTForImageClassification"}},
          {"hidden_size", 768},         {"num_attention_heads", 12},
          {"num_hidden_layers", 12},    {"intermediate_size", 3072},
          {"hidden_act", "gelu"},       {"image_size", 224},
          {"patch_size", 16},           {"num_channels", 3},
          {"hidden_dropout_prob", 0.0}, {"attention_probs_dropout_prob", 0.0},
          {"id2label", labels}};
}

std::vector<std::int64_t> made_ids(std::int64_t n, std::int64_t most) {
  std::mt19937 random(7);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most - 2)));
  return ids;
}

// rows × length tokens, or images where length is 0.
struct TrainingStep {
  Context ctx{{.device = Device::cuda(), .seed = 1, .precision = DType::bfloat16}};
  std::unique_ptr<Model> model;
  std::unique_ptr<Adam> adam;
  NamedTensors inputs;
  std::uint32_t number = 0;

  TrainingStep(const json& config, std::int64_t rows, std::int64_t length) : model(make_model(config)) {
    initialize(ctx, model->parameters());
    adam = std::make_unique<Adam>(ctx, model->parameters());
    if (length == 0) {
      inputs = {{"pixel_values", random_uniform(ctx, {rows, 3, 224, 224})},
                {"labels", Tensor::from<std::int64_t>(ctx, {rows}, made_ids(rows, 1000))}};
    } else {
      const Tensor tokens = Tensor::from<std::int64_t>(ctx, {rows, length}, made_ids(rows * length, config.at("vocab_size")));
      inputs = {{"input_ids", tokens}, {"labels", tokens}};
    }
  }

  void run() {
    ctx.random().begin_step(++number);
    ctx.set_training(true);
    Pass pass(ctx);
    adam->begin(ctx, 1e-4F);
    const Tensor loss = model->run(ctx, inputs, {.logits = false}).at("loss");
    adam->add_loss(ctx, loss, 1.0);
    backward(ctx, loss);
    adam->update(ctx, 1.0F);
    adam->zero_gradients();
    pass.end();
  }
};

void print_profile(Context& ctx, int steps) {
  for (const CudaReport::Kernel& k : take_cuda_report(ctx).kernels)
    std::printf("    %-24s %6.0f calls %9.3f ms\n", k.name.c_str(), static_cast<double>(k.calls) / steps, k.milliseconds / steps);
}

void measure_training(const char* name, const json& config, std::int64_t rows, std::int64_t length, bool profile) {
  TrainingStep step(config, rows, length);
  for (int i = 0; i < 5; ++i) step.run();
  step.ctx.backend().synchronize();
  take_cuda_report(step.ctx);
  constexpr int steps = 20;
  std::vector<double> times;
  for (int round = 0; round < 3; ++round) {
    const double begin = seconds();
    for (int i = 0; i < steps; ++i) step.run();
    step.ctx.backend().synchronize();
    times.push_back((seconds() - begin) / steps);
  }
  const CudaReport report = take_cuda_report(step.ctx);
  std::printf("%-34s %8.2f ms/step %6lld launches %3lld waits %5.0f %% graphs  %6.2f GiB\n", name, 1e3 * median(times),
              static_cast<long long>(report.launches / (3 * steps)), static_cast<long long>(report.waits - 3),
              100.0 * static_cast<double>(report.graphs) / (3 * steps),
              static_cast<double>(step.ctx.memory().peak_reserved) / (1024.0 * 1024.0 * 1024.0));
  if (profile) {
    time_cuda_kernels(step.ctx, true);
    for (int i = 0; i < 3; ++i) step.run();
    print_profile(step.ctx, 3);
    time_cuda_kernels(step.ctx, false);
  }
  std::fflush(stdout);
}

}  // namespace

void cuda_bench(bool profile, bool tune) {
  Context ctx({.device = Device::cuda()});
  std::printf("%s, bfloat16\n", ctx.backend().description().c_str());
  measure_training("Transformer base, 512 x (48 + 48)", base_translator(), 512, 48, profile);
  measure_training("GPT-2 124M, 32 x 1,024", gpt2_124m(), 32, 1024, profile);
  measure_training("ViT-B/16, 256 images", vit_base(), 256, 0, profile);
  if (tune) std::printf("%s", measured_cuda_products(ctx).c_str());
}

}  // namespace transformer::bench
