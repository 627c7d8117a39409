// The training loop: updates, validations, the best model, settings.
#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "train/pull.h"

namespace transformer::test {

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
