#pragma once
// A task small enough to see through: w [8] is pulled towards a target that each batch draws anew.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <set>
#include <thread>

#include "support/change.h"
#include "transformer/io/safetensors.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/train/trainer.h"

namespace transformer::test {

namespace fs = std::filesystem;

// What shall happen in a run.
struct Script {
  std::int64_t batches = 7;
  std::set<int> broken = {};             // the calls of loss, from 1, that give an infinite one
  std::set<int> infinite = {};           // those that give an infinite one with a finite gradient
  std::vector<double> validations = {};  // the validation losses; empty: the mean of w²
  bool validates = true;                 // false: there is no validation data
  int stop_after = -1;                   // calls of loss until the run is asked to stop
  float dropout = 0.3F;
  double validation_seconds = 0.0;
};

class Pull : public Task {
 public:
  explicit Pull(Context& ctx, Script script = {}) : script_(std::move(script)) {
    w.shape = {8};
    w.init = Init::normal;
    seen = {.shape = {1}, .trained = false};
    initialize(ctx, {{"w", &w}, {"seen", &seen}});
  }
  std::vector<NamedParameter> parameters() override { return {{"w", &w}}; }
  std::vector<NamedParameter> statistics() override { return {{"seen", &seen}}; }
  nlohmann::json identity() const override { return {{"data", {{"batches", script_.batches}}}, {"architecture", {{"width", 8}}}}; }
  std::int64_t plan(std::int64_t epoch) override { return epoch_ = epoch, script_.batches; }
  Batch prepare(std::int64_t index, const Share& = {}) const override {
    return {.content = static_cast<float>(epoch_ * 31 + index * 7 % 5), .targets = 1 + index % 3, .tokens = 4};
  }
  Tensor loss(Context& ctx, const Batch& batch) const override {
    if (++losses_ == script_.stop_after) stop = true;
    change(ctx, seen.tensor, [](std::vector<float>& values) { values[0] += 1.0F; });
    if (script_.infinite.contains(losses_))
      return add(ctx, mean(ctx, w.tensor), Tensor::full(ctx, {1}, std::numeric_limits<float>::infinity()));
    if (script_.broken.contains(losses_)) return mean(ctx, scale(ctx, w.tensor, std::numeric_limits<float>::infinity()));
    const Tensor x = dropout(ctx, w.tensor, script_.dropout);
    return mean(ctx, square(ctx, sub(ctx, x, Tensor::full(ctx, {8}, std::any_cast<float>(batch.content) * 0.1F))));
  }
  Metrics validate(Context& ctx) override {
    const auto& script = script_.validations;
    if (!script_.validates) return {};
    std::this_thread::sleep_for(std::chrono::duration<double>(script_.validation_seconds));
    if (script.empty()) return {{"loss", static_cast<double>(mean(ctx, square(ctx, w.tensor)).item())}};
    const double loss = script[std::min(validated_++, script.size() - 1)];
    return {{"loss", loss}, {"bleu", std::isnan(loss) ? 100.0 : 7.0}, {"undefined", std::nan("")}};
  }
  std::vector<std::string> metrics() const override {
    if (!script_.validates) return {};
    return script_.validations.empty() ? std::vector<std::string>{"loss"} : std::vector<std::string>{"loss", "bleu"};
  }
  void save(const fs::path& folder) override {
    save_safetensors(folder / "model.safetensors", {{"w", w.tensor.detach()}, {"seen", seen.tensor}});
  }
  void load(Context& ctx, const fs::path& folder) override {
    const SafetensorsFile file(folder / "model.safetensors");
    Tensor to = w.tensor.detach();
    copy_into(ctx, file.tensor("w"), to);
    copy_into(ctx, file.tensor("seen"), seen.tensor);
  }

  Parameter w, seen;  // seen [1]: a statistic, the calls of loss
  mutable std::atomic<bool> stop = false;

 private:
  Script script_;
  mutable int losses_ = 0;
  std::size_t validated_ = 0;
  std::int64_t epoch_ = 0;
};

inline TrainConfig config_in(const fs::path& folder) {
  return {.save_dir = folder.string(), .max_epoch = 5, .lr = 0.05F, .warmup_updates = 4, .quiet = true};
}

struct Trained {
  TrainResult result;
  std::vector<float> weights;
};

inline Trained train(const TrainConfig& config, const Script& script = {}, std::uint64_t seed = 1) {
  Context ctx({.threads = 1, .seed = seed});
  Pull task(ctx, script);
  task.stop = script.stop_after == 0;
  Trained run;
  run.result = Trainer(ctx, task, config, &task.stop).run();
  run.weights = task.w.tensor.to_vector<float>();
  return run;
}

// The lines of the log.
inline std::vector<nlohmann::json> logged(const fs::path& folder) {
  std::ifstream lines(folder / "metrics.jsonl");
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

inline std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace transformer::test
