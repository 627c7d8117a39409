// The folder of a training: checkpoints, going on, the best model and the average.
#include <sys/resource.h>

#include <csignal>
#include <map>

#include "io/shared/json.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "train/pull.h"

namespace transformer::test {

TEST(TrainerFolder, StoppedAndResumedAnywhereEndsWithTheSameBits) {
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

TEST(TrainerFolder, AskedToStopItSavesAfterTheUpdate) {
  const TemporaryFolder folder;
  const Trained none = train(config_in(folder.path()), {.stop_after = 0});
  EXPECT_EQ(none.result.end, TrainResult::End::interrupted);
  EXPECT_FALSE(latest_checkpoint(folder.path()));  // there was nothing to save
  const Trained some = train(config_in(folder.path()), {.stop_after = 10});
  EXPECT_EQ(some.result.end, TrainResult::End::interrupted);
  EXPECT_EQ(some.result.step, 10);
  EXPECT_EQ(latest_checkpoint(folder.path())->filename(), "step-00000010");
}

TEST(TrainerFolder, WhatAKilledRunLeftIsRemoved) {
  const TemporaryFolder folder;
  TrainConfig config = config_in(folder.path());
  config.keep_last = 2, config.average = 2;
  train(config);
  const auto names = [&] {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      if (!entry.path().filename().string().starts_with("events."))  // one a run
        out.insert(fs::relative(entry, folder.path()).string());
    return out;
  };
  const std::set<std::string> whole = names();
  // Killed when the last checkpoint was written and the oldest not yet removed, or half; and while files were being written.
  const fs::path checkpoints = folder / "checkpoints";
  fs::copy(checkpoints / "step-00000035", checkpoints / "step-00000021", fs::copy_options::recursive);
  fs::create_directory(checkpoints / ".incomplete-14");
  for (const char* name : {"model.safetensors.tmp-123-0", "average/config.json.tmp-9-12"}) std::ofstream(folder / name) << "half";
  std::ofstream(folder / "notes.tmp-old") << "somebody's";
  train(config);
  std::set<std::string> now = names();
  EXPECT_EQ(now.erase("notes.tmp-old"), 1U);
  EXPECT_EQ(now, whole);
}

TEST(TrainerFolder, ARunOfOtherDataIsRefusedByName) {
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

TEST(TrainerFolder, AModelThatIsThereIsNotOverwritten) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "config.json"}) {
    const TemporaryFolder folder;
    std::ofstream(folder / name) << "somebody's";
    expect_error([&] { train(config_in(folder.path())); }, {"holds a model", name, "another folder"});
    EXPECT_EQ(bytes_of(folder / name), "somebody's");
    EXPECT_FALSE(fs::exists(folder / "checkpoints"));
  }
}

TEST(TrainerFolder, NothingElseThatIsThereIsOverwritten) {
  for (const char* name : {"generation_config.json", "test.json", "average/config.json", "merged/model.safetensors", "metrics.csv"}) {
    const TemporaryFolder folder;
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << "somebody's";
    expect_error([&] { train(config_in(folder.path())); }, {name, "another folder"});
    EXPECT_EQ(bytes_of(folder / name), "somebody's");
  }
}

TEST(TrainerFolder, OneFolderHasOneTrainer) {
  const TemporaryFolder folder;
  Context ctx;
  Pull task(ctx);
  const Trainer first(ctx, task, config_in(folder.path()));
  expect_error([&] { train(config_in(folder.path())); }, {"another process is training"});
}

TEST(TrainerFolder, AveragesHaveTheStatisticsThatBelongToTheirWeights) {
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
TEST(TrainerFolder, TiedAndUntrainedParametersKeepTheirStatesApart) {
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

TEST(TrainerFolder, ADamagedStateIsDescribedInPlainWords) {
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

TEST(TrainerFolder, AFinishedRunSaysWhereItBegan) {
  const TemporaryFolder folder;
  EXPECT_EQ(train(config_in(folder.path())).result.begun_at, 0);
  const TrainResult again = train(config_in(folder.path())).result;
  EXPECT_EQ(again.begun_at, 35);
  EXPECT_EQ(again.step, 35);
}

TEST(TrainerFolder, KeepsTheBestAndStopsWithoutImprovement) {
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

TEST(TrainerFolder, AveragesTheLastCheckpoints) {
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

TEST(TrainerFolder, AFullDiskLeavesTheLastCheckpoint) {
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

}  // namespace transformer::test
