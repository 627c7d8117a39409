// The training loop with a task small enough to see through: w [8] is pulled towards a target that each batch draws anew.
#include "transformer/train/trainer.h"

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/io/safetensors.h"
#include "transformer/ops/copy.h"
#include "transformer/ops/dropout.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"

namespace transformer::test {
namespace {

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
  Batch prepare(std::int64_t index) const override {
    return {.content = static_cast<float>(epoch_ * 31 + index * 7 % 5), .targets = 1 + index % 3, .tokens = 4};
  }
  Tensor loss(Context& ctx, const Batch& batch) const override {
    if (++losses_ == script_.stop_after) stop = true;
    Tensor(seen.tensor).mutable_data<float>()[0] += 1.0F;
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

TrainConfig config_in(const fs::path& folder) {
  return {.save_dir = folder.string(), .max_epoch = 5, .lr = 0.05F, .warmup_updates = 4, .quiet = true};
}

struct Trained {
  TrainResult result;
  std::vector<float> weights;
};

Trained train(const TrainConfig& config, const Script& script = {}, std::uint64_t seed = 1) {
  Context ctx({.threads = 1, .seed = seed});
  Pull task(ctx, script);
  task.stop = script.stop_after == 0;
  Trained run;
  run.result = Trainer(ctx, task, config, &task.stop).run();
  run.weights = task.w.tensor.to_vector<float>();
  return run;
}

// The lines of the log.
std::vector<nlohmann::json> logged(const fs::path& folder) {
  std::ifstream lines(folder / "metrics.jsonl");
  std::vector<nlohmann::json> out;
  for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST(Trainer, StoppedAndResumedAnywhereEndsWithTheSameBits) {
  for (const bool plain : {true, false}) {
    const TemporaryFolder straight, stopped;
    auto config = [&](const TemporaryFolder& folder) {
      TrainConfig c = config_in(folder.path());
      c.update_freq = plain ? 1 : 2;
      c.ema_decay = plain ? 0.0F : 0.9F;
      c.save_interval_updates = 3;
      return c;
    };
    const Trained whole = train(config(straight));
    Trained part;
    int stops = 0;
    do {  // in the middle of epochs, at their ends, between checkpoints
      part = train(config(stopped), {.stop_after = 4 + stops});
      EXPECT_LT(++stops, 20);
    } while (part.result.end == TrainResult::End::interrupted && stops < 20);
    EXPECT_GT(stops, 3);
    EXPECT_EQ(part.weights, whole.weights);
    EXPECT_EQ(part.result.step, whole.result.step);
    EXPECT_EQ(part.result.best_step, whole.result.best_step);
    const auto step = fmt::format("checkpoints/step-{:08}", whole.result.step);
    EXPECT_EQ(bytes_of(stopped / step / "optimizer.safetensors"), bytes_of(straight / step / "optimizer.safetensors"));
    EXPECT_EQ(bytes_of(stopped / "model.safetensors"), bytes_of(straight / "model.safetensors"));
  }
}

TEST(Trainer, AskedToStopItSavesAfterTheUpdate) {
  const TemporaryFolder folder;
  const Trained none = train(config_in(folder.path()), {.stop_after = 0});
  EXPECT_EQ(none.result.end, TrainResult::End::interrupted);
  EXPECT_FALSE(latest_checkpoint(folder.path()));  // there was nothing to save
  const Trained some = train(config_in(folder.path()), {.stop_after = 10});
  EXPECT_EQ(some.result.end, TrainResult::End::interrupted);
  EXPECT_EQ(some.result.step, 10);
  EXPECT_EQ(latest_checkpoint(folder.path())->filename(), "step-00000010");
}

TEST(Trainer, SaysEveryStepAndEveryValidation) {
  const TemporaryFolder folder;
  Context ctx({.threads = 1, .seed = 1});
  Pull task(ctx, {.batches = 3, .broken = {2}, .validations = {3.0, 1.0, 2.0}});
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 3;
  Trainer trainer(ctx, task, config);
  std::vector<TrainStep> steps;
  std::vector<TrainValidation> validations;
  trainer.on_step([&](const TrainStep& s) { steps.push_back(s); });
  trainer.on_validation([&](const TrainValidation& v) { validations.push_back(v); });
  trainer.run();
  ASSERT_EQ(steps.size(), 9U);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(steps[i].epoch, static_cast<std::int64_t>(i) / 3 + 1);
    EXPECT_EQ(steps[i].tokens, 4);
    EXPECT_EQ(steps[i].skipped, i == 1);
    EXPECT_GT(steps[i].lr, 0.0);
  }
  ASSERT_EQ(validations.size(), 3U);
  for (std::size_t i = 0; i < validations.size(); ++i) {
    EXPECT_EQ(validations[i].step, static_cast<std::int64_t>(3 * i) + 3);
    EXPECT_EQ(validations[i].epoch, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(validations[i].best, i < 2);
    EXPECT_EQ(validations[i].metrics.front().first, "loss");
  }
}

TEST(Trainer, GradientsOfSeveralBatchesAreWeightedByTheirTargets) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.update_freq = 7;  // an epoch is one update
  config.max_epoch = config.log_interval = 1;
  Context ctx({.threads = 1, .seed = 1});
  const Pull task(ctx);  // the weights that the run begins with
  const Trained run = train(config, {.dropout = 0.0F});
  EXPECT_EQ(run.result.step, 1);
  EXPECT_EQ(run.result.epoch, 1);
  // The loss of batch i is mean((w - c_i)²) and its gradient (w - c_i) / 4, with weight n_i / Σ n: c_i and n_i as prepare says.
  double c = 0.0, n = 0.0, norm = 0.0;
  for (int i = 0; i < 7; ++i) c += (1 + i % 3) * 0.1 * (i * 7 % 5), n += 1 + i % 3;
  for (const float w : task.w.tensor.to_vector<float>()) norm += std::pow((static_cast<double>(w) - c / n) / 4.0, 2);
  std::ifstream metrics(folder / "metrics.jsonl");
  std::string first;  // of the update; the validation's comes behind it
  ASSERT_TRUE(std::getline(metrics, first));
  EXPECT_NEAR(nlohmann::json::parse(first).at("gradient_norm").get<double>(), std::sqrt(norm), 1e-6);
}

TEST(Trainer, ARunOfOtherDataIsRefusedByName) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 1;
  train(config);
  const std::string before = bytes_of(folder / "model.safetensors");
  expect_error([&] { train(config, {.batches = 9}); }, {"data.batches: 7 in the checkpoint, 9 now", "save_dir"});
  expect_error([&] { train(config, {}, 2); }, {"training.seed: 1 in the checkpoint, 2 now"});
  config.update_freq = 3;
  expect_error([&] { train(config); }, {"training.update_freq: 1 in the checkpoint, 3 now"});
  EXPECT_EQ(bytes_of(folder / "model.safetensors"), before);
}

TEST(Trainer, AModelThatIsThereIsNotOverwritten) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "config.json"}) {
    const TemporaryFolder folder;
    std::ofstream(folder / name) << "somebody's";
    expect_error([&] { train(config_in(folder.path())); }, {"holds a model", name, "another folder"});
    EXPECT_EQ(bytes_of(folder / name), "somebody's");
    EXPECT_FALSE(fs::exists(folder / "checkpoints"));
  }
}

TEST(Trainer, OneFolderHasOneTrainer) {
  const TemporaryFolder folder;
  Context ctx;
  Pull task(ctx);
  const Trainer first(ctx, task, config_in(folder.path()));
  expect_error([&] { train(config_in(folder.path())); }, {"another process is training"});
}

TEST(Trainer, BrokenUpdatesAreSkippedAndManyEndIt) {
  const TemporaryFolder few, many;
  Script script{.broken = {3, 4, 12}};
  const Trained run = train(config_in(few.path()), script);
  for (float v : run.weights) EXPECT_TRUE(std::isfinite(v));
  EXPECT_EQ(run.result.step, 35);
  for (int i = 10; i < 40; ++i) script.broken.insert(i);
  TrainConfig config = config_in(many.path());
  config.max_bad_updates = 5;
  expect_error([&] { train(config, script); }, {"5 updates in a row", "not finite", "step 7 is kept", "smaller `lr`"});
  EXPECT_EQ(latest_checkpoint(many.path())->filename(), "step-00000007");
}

// A loss that is not finite says that the step went wrong, whatever its gradient.
TEST(Trainer, AnInfiniteLossWithAFiniteGradientChangesNothing) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 0, config.max_update = 3, config.average = 1;
  Context ctx({.threads = 1, .seed = 1});
  const Pull fresh(ctx);
  expect_error([&] { train(config, {.infinite = {1, 2, 3}}); }, {"none of the 3 updates had a finite loss", "smaller `lr`"});
  const SafetensorsFile saved(folder / "checkpoints/step-00000003/model.safetensors");
  EXPECT_EQ(saved.tensor("w").to_vector<float>(), fresh.w.tensor.to_vector<float>());
  EXPECT_EQ(saved.tensor("seen").item(), 0.0F);                     // nor the statistics
  expect_error([&] { train(config); }, {"none of the 3 updates"});  // and it says so again

  const TemporaryFolder one;
  config.save_dir = one.path().string(), config.max_update = 9;
  EXPECT_EQ(train(config, {.infinite = {2, 5}}).result.step, 9);
  EXPECT_EQ(SafetensorsFile(one / "checkpoints/step-00000009/model.safetensors").tensor("seen").item(), 7.0F);
}

TEST(Trainer, ARunWithoutAFiniteValidationFails) {
  const TemporaryFolder folder;
  const Script script{.validations = {std::nan(""), INFINITY}};
  const auto run = [&] { train(config_in(folder.path()), script); };
  expect_error(run, {"no validation was finite", "no model", "smaller `lr`"});
  EXPECT_FALSE(fs::exists(folder / "model.safetensors"));
  EXPECT_TRUE(latest_checkpoint(folder.path()));
  expect_error(run, {"no validation was finite"});  // finished is finished
}

TEST(Trainer, TheLossTellsModelsOfEqualScoresApart) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.best_metric = "bleu";  // 7, whatever the loss
  const TrainResult result = train(config, {.validations = {5, 4, 3, 3, 6}}).result;
  EXPECT_EQ(result.best_step, 21);  // the third, which comes before the fourth
}

TEST(Trainer, AveragesHaveTheStatisticsThatBelongToTheirWeights) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.average = 3, config.ema_decay = 0.5F;
  const std::int64_t best = train(config).result.best_step;
  const auto seen = [](const fs::path& file) { return SafetensorsFile(file).tensor("seen").item(); };
  EXPECT_EQ(seen(folder / "checkpoints/step-00000035/model.safetensors"), 35.0F);
  EXPECT_FLOAT_EQ(seen(folder / "average/model.safetensors"), (21.0F + 28.0F + 35.0F) / 3.0F);
  float mean = 0.0F;
  for (std::int64_t step = 1; step <= best; ++step) mean = 0.5F * mean + 0.5F * static_cast<float>(step);
  EXPECT_FLOAT_EQ(seen(folder / "model.safetensors"), mean);
}

// A weight with two names has one state of the optimizer, one that is not trained has none.
TEST(Trainer, TiedAndUntrainedParametersKeepTheirStatesApart) {
  struct Tied final : Pull {
    explicit Tied(Context& ctx, Script script = {}) : Pull(ctx, std::move(script)) {
      fixed = {.shape = {2}, .trained = false};
      second = {.shape = {8}, .init = Init::normal};
      initialize(ctx, {{"fixed", &fixed}, {"second", &second}});
    }
    std::vector<NamedParameter> parameters() override { return {{"w", &w}, {"fixed", &fixed}, {"again", &w}, {"second", &second}}; }
    Tensor loss(Context& ctx, const Batch& batch) const override {
      return add(ctx, Pull::loss(ctx, batch), mean(ctx, square(ctx, scale(ctx, second.tensor, 30.0F))));
    }
    void save(const fs::path& folder) override {
      Pull::save(folder);
      save_safetensors(folder / "second.safetensors", {{"second", second.tensor.detach()}});
    }
    void load(Context& ctx, const fs::path& folder) override {
      Pull::load(ctx, folder);
      Tensor to = second.tensor.detach();
      copy_into(ctx, SafetensorsFile(folder / "second.safetensors").tensor("second"), to);
    }
    Parameter fixed, second;
  };
  const TemporaryFolder straight, stopped;
  const auto run = [](const TemporaryFolder& folder, int stop_after) {
    Context ctx({.threads = 1, .seed = 1});
    Tied task(ctx, {.stop_after = stop_after});
    TrainConfig config = config_in(folder.path());
    config.ema_decay = 0.9F;
    Trainer(ctx, task, config, &task.stop).run();
    return task.second.tensor.to_vector<float>();
  };
  run(stopped, 10);
  EXPECT_EQ(run(stopped, -1), run(straight, -1));
  const SafetensorsFile state(straight / "checkpoints/step-00000035/optimizer.safetensors");
  EXPECT_TRUE(state.contains("m.w") && state.contains("m.second"));
  EXPECT_FALSE(state.contains("m.again") || state.contains("m.fixed"));
}

TEST(Trainer, ADamagedStateIsDescribedInPlainWords) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 1;
  train(config);
  const fs::path file = folder / "checkpoints/step-00000007/trainer.json";
  const nlohmann::json good = nlohmann::json::parse(bytes_of(file));
  const auto damaged = [&](const nlohmann::json& with, const std::vector<std::string>& parts) {
    std::ofstream(file) << with;
    try {
      train(config);
      ADD_FAILURE() << "no Error for " << with;
    } catch (const Error& e) {
      const std::string message = e.what();
      EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
      for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  };
  for (const char* key : {"version", "step", "epoch", "batch", "adam_steps", "bad_updates", "best", "seconds", "identity", "settings"}) {
    nlohmann::json without = good, wrong = good;
    without.erase(key);
    wrong[key] = nlohmann::json::array();
    damaged(without, {"step-00000007", "trainer.json", std::string("'") + key + "' is missing"});
    damaged(wrong, {"trainer.json", std::string("'") + key + "': expected"});
  }
  nlohmann::json inside = good;
  inside["best"]["step"] = "seven";
  damaged(inside, {"'best.step': expected an integer, got \"seven\""});
  damaged(nlohmann::json::array(), {"trainer.json", "expected an object"});
  inside = good, inside["version"] = 99;
  damaged(inside, {"another version"});
  std::ofstream(file) << bytes_of(folder / "metrics.jsonl").substr(0, 20);
  expect_error([&] { train(config); }, {"trainer.json", "line 1, column 21", "not JSON"});
}

TEST(Trainer, SpeedIsThatOfTraining) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.validate_interval_updates = 1, config.log_interval = 5, config.max_epoch = 2;
  train(config, {.validation_seconds = 0.05});
  int lines = 0;
  for (const nlohmann::json& entry : logged(folder.path())) {
    if (entry.at("split") != "train") continue;
    ++lines;
    EXPECT_GT(entry.at("tokens_per_second").get<double>(), 4 / 0.05);  // 4 tokens per update, and a validation after each
  }
  EXPECT_EQ(lines, 2);
}

TEST(Trainer, AFinishedRunSaysWhereItBegan) {
  const TemporaryFolder folder;
  EXPECT_EQ(train(config_in(folder.path())).result.begun_at, 0);
  const TrainResult again = train(config_in(folder.path())).result;
  EXPECT_EQ(again.begun_at, 35);
  EXPECT_EQ(again.step, 35);
}

TEST(Trainer, KeepsTheBestAndStopsWithoutImprovement) {
  const TemporaryFolder folder;
  const Script script{.validations = {5, 4, 6, 4, 4.5, 3}};
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 0;
  config.patience = 3;
  const TrainResult result = train(config, script).result;
  EXPECT_EQ(result.end, TrainResult::End::no_improvement);
  EXPECT_EQ(result.best_step, 14);  // the second validation
  EXPECT_EQ(result.step, 35);
  EXPECT_EQ(train(config, script).result.step, 35);  // finished is finished
  // the best model is the one of that step
  TrainConfig to_best = config_in(folder / "other");
  to_best.max_update = 14;
  train(to_best, script);
  EXPECT_EQ(bytes_of(folder / "model.safetensors"), bytes_of(folder / "other/model.safetensors"));
  config.best_metric = "chrf";
  config.patience = 9;
  expect_error([&] { train(config, script); }, {"best_metric is 'chrf'", "loss", "bleu"});
}

// Weights that became infinite may score anything: the model before them is not lost.
TEST(Trainer, AResultThatIsNotFiniteIsNeverTheBest) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.best_metric = "bleu";
  const Script script{.validations = {0.5, std::nan(""), std::nan("")}};
  EXPECT_EQ(train(config, script).result.best_step, script.batches);
  const TemporaryFolder late;  // also when it comes first: there is no model until one is sound
  config.save_dir = late.path().string(), config.max_epoch = 3;
  EXPECT_EQ(train(config, {.validations = {std::nan(""), 0.5, 0.5}}).result.best_step, 2 * script.batches);
}

TEST(Trainer, AveragesTheLastCheckpoints) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.average = 3;
  const Trained run = train(config);
  EXPECT_FALSE(run.result.average.empty());
  std::vector<double> mean(8);
  for (int epoch : {3, 4, 5}) {
    const SafetensorsFile file(folder / fmt::format("checkpoints/step-{:08}/model.safetensors", epoch * 7));
    const std::vector<float> w = file.tensor("w").to_vector<float>();
    for (std::size_t i = 0; i < 8; ++i) mean[i] += static_cast<double>(w[i]) / 3.0;
  }
  const std::vector<float> averaged = SafetensorsFile(folder / "average/model.safetensors").tensor("w").to_vector<float>();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(averaged[i], mean[i], 1e-6);
  EXPECT_FALSE(fs::exists(folder / "checkpoints/step-00000014"));  // only what is needed is kept
  const auto again = train(config);
  EXPECT_EQ(again.weights, run.weights);  // the average is beside the run, not in it
}

TEST(Trainer, AFullDiskLeavesTheLastCheckpoint) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 1;
  const Trained first = train(config);
  const std::string before = bytes_of(folder / "checkpoints/step-00000007/optimizer.safetensors");
  config.max_epoch = 2;
  {
    // No file may grow beyond this: the write of the optimizer's state fails as on a full disk.
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    getrlimit(RLIMIT_FSIZE, &old);
    rlimit small{180, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(train(config), Error);
    setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  }
  EXPECT_EQ(bytes_of(folder / "checkpoints/step-00000007/optimizer.safetensors"), before);
  EXPECT_EQ(latest_checkpoint(folder.path())->filename(), "step-00000007");
  const TemporaryFolder straight;
  TrainConfig whole = config_in(straight.path());
  whole.max_epoch = 2;
  EXPECT_EQ(train(config).weights, train(whole).weights);  // and it goes on from there
}

TEST(Trainer, TheCosineEndsWithTheLastEpoch) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.lr_scheduler = Schedule::Kind::cosine, config.warmup_updates = 0, config.min_lr = 1e-5F, config.log_interval = 1;
  train(config);
  std::vector<float> rates;
  for (const nlohmann::json& entry : logged(folder.path()))
    if (entry.contains("lr")) rates.push_back(entry.at("lr").get<float>());
  ASSERT_GT(rates.size(), 3U);
  EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend()));
  EXPECT_FLOAT_EQ(rates.back(), 1e-5F);
}

TEST(Trainer, AShortTrainingHasAShortWarmUpUnlessOneIsSet) {
  TrainConfig config{.lr_scheduler = Schedule::Kind::cosine, .usual_warmup = 100};
  EXPECT_EQ(warmup_of(config, 5000), 100);
  EXPECT_EQ(warmup_of(config, 50), 5);
  EXPECT_EQ(warmup_of(config, 7), 0);
  config.warmup_updates = 80;
  EXPECT_EQ(warmup_of(config, 50), 80);
  EXPECT_EQ(warmup_of({.lr_scheduler = Schedule::Kind::inverse_sqrt}, 50), 4000);  // its fall follows from its warm-up

  const TemporaryFolder folder;
  config = config_in(folder / "usual"), config.lr_scheduler = Schedule::Kind::cosine, config.warmup_updates = {};
  EXPECT_EQ(train(config).result.end, TrainResult::End::finished);
  config.save_dir = (folder / "long").string(), config.warmup_updates = 35;
  expect_error([&] { train(config); }, {"warmup_updates is 35", "35 updates"});
  EXPECT_FALSE(fs::exists(folder / "long/metrics.csv"));
}

// An update and a validation after it are of the same epoch, the first of which is 1.
TEST(Trainer, LinesOfTheLogAgreeAboutTheEpoch) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.validate_interval_updates = 1, config.log_interval = 1, config.max_epoch = 2;
  train(config);
  std::map<int, std::set<int>> epochs;  // of a step
  for (const nlohmann::json& entry : logged(folder.path())) epochs[entry.at("step").get<int>()].insert(entry.at("epoch").get<int>());
  ASSERT_EQ(epochs.size(), 14U);
  for (const auto& [step, of] : epochs) EXPECT_EQ(of, std::set<int>{(step - 1) / 7 + 1}) << step;
}

TEST(Trainer, TheLastUpdateIsValidatedWhateverTheInterval) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.max_epoch = 0, config.max_update = 7, config.validate_interval_updates = 5;
  train(config);
  std::vector<int> validated;
  for (const nlohmann::json& entry : logged(folder.path()))
    if (entry.at("split") == "valid") validated.push_back(entry.at("step").get<int>());
  EXPECT_EQ(validated, (std::vector<int>{5, 7}));
}

TEST(Trainer, SaysWhichSettingIsWrong) {
  const TemporaryFolder folder;
  auto with = [&](auto change) {
    TrainConfig config = config_in(folder.path());
    change(config);
    return [config] { train(config); };
  };
  expect_error(with([](TrainConfig& c) { c.save_dir = ""; }), {"save_dir"});
  expect_error(with([](TrainConfig& c) { c.max_epoch = 0; }), {"never end", "max_epoch"});
  expect_error(with([](TrainConfig& c) { c.lr = 0; }), {"lr is 0"});
  expect_error(with([](TrainConfig& c) { c.ema_decay = 1; }), {"ema_decay is 1"});
  expect_error(with([](TrainConfig& c) { c.lr_scheduler = Schedule::Kind::cosine, c.max_epoch = 0, c.patience = 3; }),
               {"cosine", "max_update or max_epoch"});
  expect_error(with([](TrainConfig& c) { c.min_lr = 1.0F; }), {"min_lr is 1", "0.05"});
  expect_error(with([](TrainConfig& c) { c.best_metric = "accurracy"; }), {"best_metric is 'accurracy'", "loss"});
  expect_error([&] { train({.save_dir = (folder / "endless").string(), .patience = 2, .quiet = true}, {.validates = false}); },
               {"never end", "no validation data"});
  EXPECT_FALSE(fs::exists(folder / "metrics.csv"));  // all of this was known before the first update
  check({.save_dir = (folder / "not/yet/there").string(), .max_epoch = 1});
  EXPECT_FALSE(fs::exists(folder / "not"));
  std::ofstream(folder / "file") << "x";
  expect_error(with([&](TrainConfig& c) { c.save_dir = (folder / "file/inside").string(); }), {"file/inside", "cannot make the folder"});
}

}  // namespace transformer::test
