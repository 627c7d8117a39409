#include "task_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "made_data.h"
#include "train/encoder_batch.h"
#include "transformer/train/classify.h"
#include "transformer/train/forecast.h"
#include "transformer/train/image.h"
#include "transformer/train/mlm.h"

namespace transformer::bench {
namespace {

constexpr std::int64_t text_tokens = 2048;  // of a batch of texts

constexpr std::array kinds{
    TaskKind{"lm", "GPT-2, 4 layers, 4 heads, d_model 128, 12 texts of 64 characters", "tokens", 100, "text.txt", make_text},
    TaskKind{"mlm", "BERT, 4 layers, 4 heads, d_model 128, 2048 tokens in texts of 8 to 64", "tokens", 20, "texts.txt", make_sentences},
    TaskKind{"classify", "BERT, 4 layers, 4 heads, d_model 128, 2048 tokens in texts of 8 to 64", "tokens", 20, "texts.tsv", make_labelled},
    TaskKind{"image", "ViT, 6 layers, 4 heads, d_model 64, 128 images of 28 x 28 in patches of 4 x 4", "images", 20, "", make_images},
    TaskKind{"forecast", "PatchTST, 336 -> 96, 7 channels, 3 layers, 4 heads, d_model 16, 128 windows", "windows", 10, "series.csv",
             make_series}};

HostTensors tensors_of(const Batch& batch) { return std::any_cast<const HostTensors&>(batch.content); }

// Texts as others take them: [texts, longest] of token ids, and which of these are real.
HostTensors padded_texts(const auto& ids, const std::vector<std::int64_t>& lengths) {
  const Shape shape{std::ssize(lengths), *std::max_element(lengths.begin(), lengths.end())};
  std::vector<std::int64_t> rows(static_cast<std::size_t>(shape.numel())), real(rows);
  auto from = ids.begin();
  for (std::size_t text = 0; text < lengths.size(); from += lengths[text++]) {
    const std::int64_t begin = static_cast<std::int64_t>(text) * shape[1];
    std::copy_n(from, lengths[text], rows.begin() + begin), std::fill_n(real.begin() + begin, lengths[text], 1);
  }
  return {{"input_ids", {shape, rows}}, {"attention_mask", {shape, real}}};
}

EncoderConfig encoder(float dropout) {
  return {.d_model = 128, .num_heads = 4, .num_layers = 4, .d_ff = 512, .dropout = dropout, .attention_dropout = dropout};
}

std::unique_ptr<ModelTask> masked(Context& ctx, const std::string& data, float dropout, Padded& padded) {
  auto task = std::make_unique<MlmTask>(ctx, MlmConfig{.text = {data}, .max_tokens = text_tokens, .max_length = 64}, encoder(dropout),
                                        EncoderVocabulary{.subwords = EncoderPieces::whitespace, .vocab_size = 8000});
  padded = [&task = *task](std::int64_t i) {
    const Batch batch = task.prepare(i);
    const auto& of = std::any_cast<const MaskedIds&>(batch.content);
    HostTensors all = padded_texts(of.ids, of.lengths);
    const Shape shape = all.at("input_ids").shape;
    std::vector<std::int64_t> labels(static_cast<std::size_t>(shape.numel()), -100);
    std::int64_t from = 0;
    std::size_t place = 0;
    for (std::int64_t text = 0; text < shape[0]; ++text)
      for (std::int64_t t = 0; t < of.lengths[static_cast<std::size_t>(text)]; ++t, ++from)
        if (place < of.places.size() && of.places[place] == from)
          labels[static_cast<std::size_t>(text * shape[1] + t)] = of.targets[place++];
    all["labels"] = {shape, labels};
    return all;
  };
  return task;
}

std::unique_ptr<ModelTask> classifier(Context& ctx, const std::string& data, float dropout, Padded& padded) {
  ClassifyConfig config;
  config.data = data, config.max_tokens = text_tokens, config.max_length = 64;
  auto task = std::make_unique<ClassifyTask>(ctx, config, encoder(dropout),
                                             EncoderVocabulary{.subwords = EncoderPieces::whitespace, .vocab_size = 8000});
  padded = [&task = *task](std::int64_t i) {
    const Batch batch = task.prepare(i);
    const auto& of = std::any_cast<const LabelledBatch&>(batch.content);
    HostTensors all = padded_texts(of.texts.ids, of.texts.lengths);
    all["labels"] = of.labels;
    return all;
  };
  return task;
}

std::unique_ptr<ModelTask> image_classifier(Context& ctx, const std::string& data, bool dropout, Padded& padded) {
  const ImageSettings settings{.source = {.idx = data},
                               .augmentation = {.flip = true, .crop_padding = 2},
                               .images = {.valid = ImageValidation::none, .batch_size = 128, .label_smoothing = 0.1F}};
  auto task = std::make_unique<ImageTask>(
      ctx, settings,
      ImageModelConfig{
          .patch_size = 4, .d_model = 64, .num_heads = 4, .num_layers = 6, .d_ff = 128, .stochastic_depth = dropout ? 0.1F : 0.0F});
  padded = [&task = *task](std::int64_t i) {
    HostTensors batch = tensors_of(task.prepare(i));
    batch["label_smoothing"] = {{1}, std::vector{0.1F}};
    return batch;
  };
  return task;
}

std::unique_ptr<ModelTask> forecaster(Context& ctx, const std::string& data, float dropout) {
  ForecastModelConfig model;
  apply_preset("small", model);
  model.dropout = dropout, model.positions = SeriesPositions::random;
  return std::make_unique<ForecastTask>(ctx, ForecastConfig{.csv = data}, model);
}

}  // namespace

const TaskKind& kind_of(const std::string& task) {
  for (const TaskKind& kind : kinds)
    if (kind.name == task) return kind;
  std::vector<std::string_view> names;
  for (const TaskKind& kind : kinds) names.push_back(kind.name);
  fail("bench", "task '{}' is unknown: expected {}", task, fmt::join(names, ", "));
}

BenchTask::BenchTask(const TaskOptions& options, const std::string& data, DType precision, bool dropout)
    : ctx({.threads = options.threads, .seed = 1, .precision = precision}) {
  padded = [this](std::int64_t i) { return tensors_of(task->prepare(i)); };
  if (options.task == "lm") task = language_model(ctx, data, padded);
  else if (options.task == "mlm") task = masked(ctx, data, dropout ? 0.1F : 0.0F, padded);
  else if (options.task == "classify") task = classifier(ctx, data, dropout ? 0.1F : 0.0F, padded);
  else if (options.task == "image") task = image_classifier(ctx, data, dropout, padded);
  else task = forecaster(ctx, data, dropout ? 0.3F : 0.0F);
  batches = task->plan(0);
}

}  // namespace transformer::bench
