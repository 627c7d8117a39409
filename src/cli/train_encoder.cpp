#include "cli/train_encoder.h"

#include <algorithm>

#include "cli/files.h"
#include "io/shared/json.h"
#include "transformer/core/setting_error.h"

namespace transformer::cli {

namespace fs = std::filesystem;

std::int64_t ToyConfig::training() const {
  if (toy < 2) wrong_setting("train", "toy", "is {}: expected 2 texts or more", toy);
  return toy / 2 * 2;
}

std::string write_toy(const std::string& save_dir, const std::string& name, const std::string& text) {
  const fs::path folder = fs::path(save_dir) / "toy";
  fs::create_directories(folder);
  write_made(folder / name, text);
  return (folder / name).string();
}

TrainConfig encoder_training(const std::string& best_metric) {
  return {.max_epoch = 10,
          .lr_scheduler = Schedule::Kind::cosine,
          .usual_warmup = 500,
          .adam_eps = 1e-6F,
          .weight_decay = 0.01F,
          .best_metric = best_metric};
}

void use_best_metric(TrainConfig& training, const Task& task) {
  if (!training.best_metric.empty()) return;
  const std::vector<std::string> measured = task.metrics();
  training.best_metric = measured.size() > 1 ? measured[1] : "loss";
}

EncoderStart encoder_start(const CLI::App& verb, const EncoderStart& start, const EncoderConfig& model,
                           const EncoderVocabulary& vocabulary) {
  EncoderStart out = start;
  if (start.from.empty()) return out;
  std::vector<std::string> given = fields_given(verb, model);
  take(given, "dropout", model.dropout, out.dropout);
  take(given, "attention_dropout", model.attention_dropout, out.attention_dropout);
  for (const std::string& name : fields_given(verb, vocabulary)) given.push_back(name);
  refuse_with_from(verb, start.from, given);
  return out;
}

void say(const TextReport& report) {
  if (const std::string summary = report.summary(); !summary.empty()) fmt::print(stderr, "{}\n", summary);
}

void say_model(EncoderTask& task) {
  fmt::print(stderr, "model: {}, vocabulary {}, {}\n", task.size(), task.tokenizer().size(), task.layout());
}

void say_how_good(const std::string& save_dir, const std::string& valid, const std::string& test, const Evaluation& result,
                  const std::string& samples) {
  const std::string& file = test.empty() ? valid : test;
  fmt::print("{}: {}", file, result.table(samples));
  nlohmann::json report = result.to_json();
  report["file"] = file;
  write_json(fs::path(save_dir) / (test.empty() ? "valid_report.json" : "test_report.json"), report);
}

}  // namespace transformer::cli
