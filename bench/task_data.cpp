#include "task_data.h"

#include <fmt/ranges.h>

#include <cmath>

#include "transformer/core/shuffle.h"
#include "transformer/io/safetensors.h"

namespace transformer::bench {
namespace {

using nlohmann::json;

constexpr std::int64_t vocabulary = 8000, special = 5;  // of encoders; 0 pads, 4 masks

struct Kind {
  std::string_view name;
  BenchTask about;
  json config;
  std::int64_t samples;  // of a batch
};

json bert(const char* architecture) {
  return {{"model_type", "bert"},     {"architectures", {architecture}}, {"vocab_size", vocabulary},
          {"hidden_size", 128},       {"num_hidden_layers", 4},          {"num_attention_heads", 4},
          {"intermediate_size", 512}, {"max_position_embeddings", 64},   {"type_vocab_size", 2},
          {"pad_token_id", 0},        {"hidden_dropout_prob", 0.1},      {"attention_probs_dropout_prob", 0.1}};
}

json labels(int count) {
  json out = json::object();
  for (int i = 0; i < count; ++i) out[std::to_string(i)] = fmt::format("LABEL_{}", i);
  return out;
}

std::vector<Kind> kinds() {
  json lm{{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
          {"vocab_size", 65},     {"n_positions", 64},
          {"n_embd", 128},        {"n_layer", 4},
          {"n_head", 4},          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},    {"attn_pdrop", 0.0},
          {"bos_token_id", 0},    {"eos_token_id", 0}};
  json image{{"model_type", "vit"},      {"architectures", {"ViTForImageClassification"}},
             {"hidden_size", 64},        {"num_hidden_layers", 6},
             {"num_attention_heads", 4}, {"intermediate_size", 128},
             {"image_size", 28},         {"patch_size", 4},
             {"num_channels", 1},        {"id2label", labels(10)}};
  json forecast{{"model_type", "patchtst"},
                {"architectures", {"PatchTSTForPrediction"}},
                {"num_input_channels", 7},
                {"context_length", 336},
                {"prediction_length", 96},
                {"patch_length", 16},
                {"patch_stride", 8},
                {"d_model", 16},
                {"num_attention_heads", 4},
                {"ffn_dim", 128},
                {"num_hidden_layers", 3},
                {"pooling_type", nullptr},
                {"norm_type", "batchnorm"},
                {"pre_norm", false},
                {"positional_encoding_type", "random"},
                {"path_dropout", 0.3},
                {"ff_dropout", 0.3},
                {"positional_dropout", 0.3}};
  return {
      {"lm", {"GPT-2, 4 layers, 4 heads, d_model 128, 12 texts of 64 characters", "tokens", 50}, lm, 12},
      {"mlm", {"BERT, 4 layers, 4 heads, d_model 128, masked tokens of 2048", "tokens", 12}, bert("BertForMaskedLM"), 56},
      {"classify", {"BERT, 4 layers, 4 heads, d_model 128, texts of 2048 tokens", "tokens", 12}, bert("BertForSequenceClassification"), 56},
      {"image", {"ViT, 6 layers, 4 heads, d_model 64, 128 images of 28 × 28", "images", 12}, image, 128},
      {"forecast", {"PatchTST, 336 → 96, 7 channels, d_model 16, 128 windows", "windows", 12}, forecast, 128}};
}

Kind kind_of(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Kind& kind : kinds())
    if (kind.name == name) return kind;
    else known.push_back(kind.name);
  fail("bench", "task '{}' is unknown: expected {}", name, fmt::join(known, ", "));
}

// Made samples: words and values at random, with something in them that can be learned.
class MadeTask final : public ModelTask {
 public:
  MadeTask(Context& ctx, Kind kind) : ModelTask(ctx, "bench"), kind_(std::move(kind)) { build_model(kind_.config); }

  json identity() const override { return model_identity(); }
  std::int64_t plan(std::int64_t) override { return 1000; }
  Metrics validate(Context&) override { return {}; }
  void save_beside(const std::filesystem::path&) const override {}

  Batch prepare(std::int64_t index) const override {
    const RandomStream random = epoch_stream(seed(), index);
    if (kind_.name == "lm") return text(random);
    if (kind_.name == "image") return images(random);
    if (kind_.name == "forecast") return windows(random);
    return sentences(random, kind_.name == "mlm");
  }

 private:
  Batch text(const RandomStream& random) const {
    const std::int64_t n = kind_.samples, length = 64;
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < n * length; ++i) ids.push_back(random.bits(static_cast<std::uint64_t>(i)) % (i % 2 == 0 ? 65 : 8));
    return {.content = HostTensors{{"input_ids", {{n, length}, ids}}, {"labels", {{n, length}, ids}}},
            .targets = n * (length - 1),
            .tokens = n * length};
  }

  Batch sentences(const RandomStream& random, bool masked) const {
    const std::int64_t n = kind_.samples;
    std::vector<std::int64_t> lengths;
    std::int64_t longest = 0, total = 0, targets = 0;
    std::uint64_t drawn = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      lengths.push_back(8 + random.bits(drawn++) % 57);
      longest = std::max(longest, lengths.back()), total += lengths.back();
    }
    std::vector<std::int64_t> ids, mask, wanted;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < longest; ++j) {
        const bool real = j < lengths[static_cast<std::size_t>(i)];
        const std::int64_t id = special + random.bits(drawn++) % (vocabulary - special), hidden = random.uniform(drawn++) < 0.15F;
        mask.push_back(real ? 1 : 0);
        ids.push_back(!real ? 0 : masked && hidden != 0 ? special - 1 : id);
        if (masked) wanted.push_back(real && hidden != 0 ? id : -100), targets += wanted.back() >= 0 ? 1 : 0;
        else if (j == 0) wanted.push_back(id % 2);
      }
    const Shape shape{n, longest};
    return {.content = HostTensors{{"input_ids", {shape, ids}},
                                   {"attention_mask", {shape, mask}},
                                   {"labels", {masked ? shape : Shape{n}, wanted}}},
            .targets = masked ? targets : n,
            .tokens = total};
  }

  Batch images(const RandomStream& random) const {
    const std::int64_t n = kind_.samples, pixels = 28 * 28;
    std::vector<float> values;
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < n; ++i) classes.push_back(i % 10);
    for (std::int64_t i = 0; i < n * pixels; ++i)
      values.push_back(random.uniform(static_cast<std::uint64_t>(i)) + 0.1F * static_cast<float>(i / pixels % 10) - 1.0F);
    return {.content = HostTensors{{"pixel_values", {{n, 1, 28, 28}, values}}, {"labels", {{n}, classes}}}, .targets = n, .tokens = n};
  }

  Batch windows(const RandomStream& random) const {
    const std::int64_t n = kind_.samples, channels = 7;
    std::vector<float> past, future;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t t = 0; t < 336 + 96; ++t)
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto element = static_cast<std::uint64_t>((i * 432 + t) * channels + c);
          const float value = std::sin(static_cast<float>(t + 5 * i) * 0.2618F + static_cast<float>(c)) + 0.3F * random.uniform(element);
          (t < 336 ? past : future).push_back(value);
        }
    return {.content = HostTensors{{"past_values", {{n, 336, channels}, past}}, {"future_values", {{n, 96, channels}, future}}},
            .targets = n * 96 * channels,
            .tokens = n};
  }

  Kind kind_;
};

}  // namespace

BenchTask describe_task(const std::string& task) { return kind_of(task).about; }

std::unique_ptr<ModelTask> make_task(Context& ctx, const TaskOptions& options) {
  return std::make_unique<MadeTask>(ctx, kind_of(options.task));
}

void write_batches(const std::vector<Batch>& batches, const std::filesystem::path& path) {
  Context ctx({.threads = 1});
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (std::size_t i = 0; i < batches.size(); ++i)
    for (auto& [name, tensor] : to_tensors(ctx, *std::any_cast<HostTensors>(&batches[i].content)))
      tensors.emplace_back(fmt::format("{}.{}", i, name), tensor);
  save_safetensors(path, tensors);
}

}  // namespace transformer::bench
