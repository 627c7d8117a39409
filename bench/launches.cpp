#include "launches.h"

#include <cstdio>

#include "backend/guarded/counts.h"
#include "transformer/models/model.h"
#include "transformer/nn/parameter.h"
#include "transformer/ops/random.h"
#include "transformer/train/optimizer.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

// The depths of the models; their widths and vocabularies are small, since the count does not depend on them.
json translator(int layers) {
  return {{"model_type", "marian"},
          {"architectures", {"MarianMTModel"}},
          {"d_model", 32},
          {"encoder_layers", layers},
          {"decoder_layers", layers},
          {"encoder_attention_heads", 2},
          {"decoder_attention_heads", 2},
          {"encoder_ffn_dim", 64},
          {"decoder_ffn_dim", 64},
          {"activation_function", "relu"},
          {"dropout", 0.1},
          {"vocab_size", 100},
          {"pad_token_id", 99},
          {"eos_token_id", 0},
          {"decoder_start_token_id", 99},
          {"max_position_embeddings", 64},
          {"scale_embedding", true}};
}
json gpt2() {
  return {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"n_embd", 32},         {"n_head", 2},
          {"n_layer", 12},        {"n_positions", 64},
          {"vocab_size", 100},    {"resid_pdrop", 0.1},
          {"embd_pdrop", 0.1},    {"attn_pdrop", 0.1}};
}
json vit() {
  json labels;
  for (int i = 0; i < 10; ++i) labels[std::to_string(i)] = fmt::format("class {}", i);
  return {{"model_type", "vit"},
          {"architectures", {"ViTForImageClassification"}},
          {"hidden_size", 32},
          {"num_attention_heads", 2},
          {"num_hidden_layers", 12},
          {"intermediate_size", 64},
          {"hidden_act", "gelu"},
          {"image_size", 32},
          {"patch_size", 8},
          {"num_channels", 3},
          {"hidden_dropout_prob", 0.0},
          {"attention_probs_dropout_prob", 0.0},
          {"id2label", labels}};
}

GuardedCounts step_counts(const json& config) {
  Context ctx({.device = Device::guarded(), .threads = 1, .seed = 1});
  const std::unique_ptr<Model> model = make_model(config);
  initialize(ctx, model->parameters());
  Adam adam(ctx, model->parameters());
  const bool images = config.at("model_type") == "vit";
  const std::vector<std::int64_t> ids{5, 6, 7, 8, 9, 10, 11, 12}, classes{1, 2};
  NamedTensors inputs;
  if (images) {
    inputs = {{"pixel_values", random_uniform(ctx, {2, 3, 32, 32})}, {"labels", Tensor::from<std::int64_t>(ctx, {2}, classes)}};
  } else {
    const Tensor tokens = Tensor::from<std::int64_t>(ctx, {2, 4}, ids);
    inputs = {{"input_ids", tokens}, {"labels", tokens}};
  }
  GuardedCounts before;
  for (int step = 1; step <= 2; ++step) {  // the first makes tables that stay
    before = guarded_counts();
    ctx.random().begin_step(static_cast<std::uint32_t>(step));
    ctx.set_training(true);
    adam.begin(ctx, 1e-3F);
    const Tensor loss = model->run(ctx, inputs, {.logits = images}).at("loss");
    adam.add_loss(ctx, loss, 1.0);
    backward(ctx, loss);
    adam.update(ctx, 1.0F);
    adam.zero_gradients();
  }
  const GuardedCounts after = guarded_counts();
  return {after.launches - before.launches, after.waits - before.waits, after.uploads - before.uploads};
}

}  // namespace

void launches_bench() {
  std::printf("What a training step asks of a device (one chunk of the loss)\n\n%-28s %10s %10s %8s\n", "model", "launches", "uploads",
              "waits");
  for (const auto& [name, config] : {std::pair{"Transformer tiny, 4 + 4", translator(4)},
                                     {"Transformer base, 6 + 6", translator(6)},
                                     {"GPT-2, 12 layers", gpt2()},
                                     {"ViT, 12 layers", vit()}}) {
    const GuardedCounts counts = step_counts(config);
    std::printf("%-28s %10lld %10lld %8lld\n", name, static_cast<long long>(counts.launches), static_cast<long long>(counts.uploads),
                static_cast<long long>(counts.waits));
  }
}

}  // namespace transformer::bench
