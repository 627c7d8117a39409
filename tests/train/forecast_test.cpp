#include "transformer/train/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <set>

#include "support/metrics.h"
#include "support/temporary_folder.h"
#include "transformer/toys/prices.h"
#include "transformer/train/trainer.h"

namespace transformer::test {
namespace {

namespace fs = std::filesystem;

ForecastModelConfig documents() {
  ForecastModelConfig config;
  apply_preset("documents", config);
  return config;
}

ForecastTask toy_task(Context& ctx, ForecastConfig data = {}) {
  data.series = toy_prices();
  return {ctx, data, documents()};
}

const std::vector<float>& past_of(const Batch& batch) {
  return std::get<std::vector<float>>(std::any_cast<HostTensors>(&batch.content)->at("past_values").values);
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Three channels that are the toy prices, moved and scaled.
std::string three_channels(std::int64_t days) {
  SeriesTable table = toy_prices(days);
  const std::vector<double> prices = table.values;
  table.channels = {"a", "b", "c"};
  table.values.clear();
  for (const double price : prices) table.values.insert(table.values.end(), {price, 5.0 - price / 7.0, price * 1000.0});
  return write_table(table);
}

}  // namespace

// The documents' example: 30 days are 9 patches of 6 days, and the days that follow are predicted.
TEST(Forecast, ThirtyDaysAreNinePatches) {
  Context ctx;
  ForecastTask task = toy_task(ctx);
  const auto& model = dynamic_cast<const PatchTSTModel&>(task.model());
  EXPECT_EQ(model.series().patches(), 9);
  EXPECT_EQ(task.windows().sizes().context, 30);
  EXPECT_EQ(task.windows().count(task.windows().parts().train), 700 - 30 - 7 + 1);
}

TEST(Forecast, TheLossIsTheErrorThatWasAskedFor) {
  Context ctx;
  for (const SeriesLoss kind : {SeriesLoss::mse, SeriesLoss::mae, SeriesLoss::huber}) {
    ForecastTask task = toy_task(ctx, {.loss = kind, .batch_size = 5});
    ASSERT_GT(task.plan(0), 0);
    const Batch batch = task.prepare(0);
    NamedTensors in = to_tensors(ctx, *std::any_cast<HostTensors>(&batch.content));
    const std::vector<float> wanted = in.at("future_values").to_vector<float>();
    in.erase("future_values");
    const std::vector<float> got = task.model().run(ctx, in).at("prediction_outputs").to_vector<float>();
    double sum = 0.0;
    int small = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double e = std::abs(static_cast<double>(got[i]) - wanted[i]);
      small += e < 1.0 ? 1 : 0;
      sum += kind == SeriesLoss::mse ? e * e : kind == SeriesLoss::mae ? e : e < 1.0 ? e * e / 2 : e - 0.5;
    }
    EXPECT_GT(small, 0);
    EXPECT_LT(small, static_cast<int>(got.size())) << "both pieces of the Huber error should be there";
    EXPECT_NEAR(task.loss(ctx, batch).item(), sum / static_cast<double>(got.size()), 1e-5);
  }
}

// The paper's figures need small weights in the beginning, those of Hugging Face's init_std.
TEST(Forecast, FreshWeightsAreSmall) {
  Context ctx({.seed = 3});
  ForecastTask task(ctx, {.series = toy_prices()}, {.positions = SeriesPositions::random});
  for (const auto& [name, p] : task.parameters()) {
    if (p->init != Init::normal || p->shape.numel() < 1000) continue;
    double squares = 0.0;
    for (const float w : p->tensor.to_vector<float>()) squares += static_cast<double>(w) * w;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(p->shape.numel())), 0.02, 0.002) << name;
  }
}

TEST(Forecast, AnEpochIsEveryWindowOnceInAnOrderOfSeedAndEpoch) {
  Context ctx({.seed = 3}), other({.seed = 4});
  ForecastTask task = toy_task(ctx, {.batch_size = 100}), again = toy_task(ctx, {.batch_size = 100}),
               seeded = toy_task(other, {.batch_size = 100});
  ASSERT_EQ(task.plan(0), 7);
  std::multiset<std::vector<float>> seen, windows;
  for (std::int64_t i = 0; i < 7; ++i) {
    const Batch batch = task.prepare(i);
    EXPECT_EQ(batch.tokens, i < 6 ? 100 : 64);
    EXPECT_EQ(batch.targets, batch.tokens * 7);
    const std::vector<float>& past = past_of(batch);
    for (auto at = past.begin(); at != past.end(); at += 30) seen.emplace(at, at + 30);
  }
  for (std::int64_t i = 0; i < 664; ++i) {
    std::vector<float> past, future;
    task.windows().take(task.windows().parts().train, std::vector{i}, past, future);
    windows.insert(past);
  }
  EXPECT_EQ(seen, windows);
  again.plan(5), seeded.plan(0);
  EXPECT_NE(past_of(again.prepare(0)), past_of(task.prepare(0)));
  EXPECT_NE(past_of(seeded.prepare(0)), past_of(task.prepare(0)));
  again.plan(0);
  EXPECT_EQ(past_of(again.prepare(3)), past_of(task.prepare(3)));
}

// One window of one channel and one patch is too little for batch norm: it goes to the batch before it, or training is refused before
// it begins.
TEST(Forecast, ABatchHasWhatBatchNormNeeds) {
  const TemporaryFolder folder;
  const std::string path = (folder / "x.csv").string();
  write(path, write_table(toy_prices(80)));
  Context ctx({.seed = 1});
  const ForecastModelConfig one_patch{
      .context = 12, .horizon = 4, .patch_length = 8, .stride = 8, .d_model = 8, .num_heads = 2, .num_layers = 1, .d_ff = 8};
  ForecastConfig data{.csv = path, .split = {.split = "1,0,0"}, .batch_size = 64};
  ForecastTask task(ctx, data, one_patch);
  ASSERT_EQ(task.windows().count(task.windows().parts().train), 65);
  ASSERT_EQ(task.plan(0), 1);
  EXPECT_EQ(task.prepare(0).tokens, 65);
  data.batch_size = 1;
  try {
    ForecastTask refused(ctx, data, one_patch);
    ADD_FAILURE() << "batches of one patch were taken";
  } catch (const Error& e) {
    for (const char* part : {"a batch has 1 window", "batch norm", "--batch-size", "--norm layernorm"})
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
  ForecastModelConfig layer_norm = one_patch;
  layer_norm.norm = SeriesNorm::layernorm;
  EXPECT_EQ(ForecastTask(ctx, data, layer_norm).plan(0), 65);
}

// A part without windows has no errors, and they are not 0.
TEST(Forecast, APartWithoutWindowsIsRefused) {
  const TemporaryFolder folder;
  Context ctx({.seed = 1});
  ForecastTask task = toy_task(ctx);
  task.save(folder.path());
  const Forecaster forecaster = Forecaster::load(ctx, folder.path());
  for (const RowRange& rows : {RowRange{0, 36}, RowRange{500, 506}}) {
    try {
      static_cast<void>(forecaster.evaluate(ctx, task.table(), rows));
      ADD_FAILURE() << "was measured";
    } catch (const Error& e) {
      for (const std::string& part : {fmt::format("{} rows", rows.size()), std::string("context of 30"), std::string("horizon of 7")})
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(forecaster.evaluate(ctx, task.table(), {0, 37}).values(), 7);
}

TEST(Forecast, ValidationIsTheMeanOverAllWindows) {
  Context ctx({.seed = 2});
  ForecastTask task = toy_task(ctx, {.split = {.split = "0.5,0.4,0.1"}});  // more windows than are computed at once
  const RowRange& part = task.windows().parts().validation;
  const std::int64_t n = task.windows().count(part);
  ASSERT_GT(n, 256);
  double squares = 0.0, absolutes = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<float> past, future;
    task.windows().take(part, std::vector{i}, past, future);
    const std::vector<float> y =
        task.model().run(ctx, {{"past_values", Tensor::from<float>(ctx, {1, 30, 1}, past)}}).at("prediction_outputs").to_vector<float>();
    for (std::size_t j = 0; j < y.size(); ++j) {
      const double error = static_cast<double>(y[j]) - static_cast<double>(future[j]);
      squares += error * error, absolutes += std::abs(error);
    }
  }
  const Metrics measured = task.validate(ctx);
  EXPECT_EQ(task.metrics(), names_of(measured));
  EXPECT_NEAR(measured.at(1).second, squares / static_cast<double>(7 * n), 1e-5);
  EXPECT_NEAR(measured.at(2).second, absolutes / static_cast<double>(7 * n), 1e-5);
  EXPECT_EQ(measured.at(2).first, "mae");
}

TEST(Forecast, LearnsMoreThanTheLastValueAndForecastsTheNextDays) {
  const TemporaryFolder folder;
  Context ctx({.seed = 1});
  ForecastTask task = toy_task(ctx, {.batch_size = 64});
  const TrainConfig training{.save_dir = (folder / "model").string(),
                             .max_epoch = 8,
                             .lr = 3e-3F,
                             .lr_scheduler = Schedule::Kind::cosine,
                             .warmup_updates = 10,
                             .quiet = true};
  Trainer(ctx, task, training).run();
  task.load(ctx, training.save_dir);
  const RowRange& test = task.windows().parts().test;
  const auto model = task.test(ctx)->scaled(), naive = measure_last_value(task.windows(), test, task.notes()).scaled();
  EXPECT_LT(model.mse, 0.3 * naive.mse);
  EXPECT_LT(model.mae, 0.6 * naive.mae);

  // The folder forecasts what the task's model does, in the units of the table and with the next dates.
  const Forecaster forecaster = Forecaster::load(ctx, training.save_dir);
  const SeriesTable all = toy_prices();
  SeriesTable known = all;
  known.values.resize(993), known.dates.resize(993);
  const SeriesTable next = forecaster.forecast(ctx, known).point;
  ASSERT_EQ(next.rows(), 7);
  for (std::int64_t i = 0; i < 7; ++i) EXPECT_EQ(next.date(i), all.date(993 + i));
  std::vector<float> past, future;
  task.windows().take(test, std::vector{task.windows().count(test) - 1}, past, future);
  const std::vector<float> y =
      task.model().run(ctx, {{"past_values", Tensor::from<float>(ctx, {1, 30, 1}, past)}}).at("prediction_outputs").to_vector<float>();
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(next.values[i], task.notes().scaler.original(static_cast<double>(y[i]), 0), 1e-4);

  // Longer than the horizon: as if what was forecast were known.
  const SeriesTable longer = forecaster.forecast(ctx, known, 10).point;
  ASSERT_EQ(longer.rows(), 10);
  EXPECT_TRUE(std::equal(next.values.begin(), next.values.end(), longer.values.begin()));
  known.values.insert(known.values.end(), next.values.begin(), next.values.end());
  known.dates.insert(known.dates.end(), next.dates.begin(), next.dates.end());
  EXPECT_NEAR(forecaster.forecast(ctx, known).point.values[2], longer.values[9], 1e-3);
  EXPECT_EQ(forecaster.forecast(ctx, known).point.date(2), longer.date(9));
  EXPECT_NEAR(forecaster.evaluate(ctx, all, test).scaled().mse, model.mse, 1e-7);

  // Without series.json, as Hugging Face saves a model, the values go in as they are.
  fs::remove(folder / "model/series.json");
  const Forecaster plain = Forecaster::load(ctx, training.save_dir);
  EXPECT_EQ(plain.notes(), nullptr);
  EXPECT_NEAR(plain.forecast(ctx, all).point.values[0], forecaster.forecast(ctx, all).point.values[0],
              0.05);  // each window has its own scale
}

// Noise whose size is known: a share of it lies below each quantile, in the test part too.
TEST(Forecast, LearnsQuantiles) {
  const TemporaryFolder folder;
  SeriesTable noise = toy_prices(1500);
  std::mt19937 random(5);
  std::normal_distribution<double> normal(20.0, 3.0);
  for (double& value : noise.values) value = normal(random);
  write(folder / "noise.csv", write_table(noise));
  Context ctx({.seed = 1});
  ForecastModelConfig sizes = documents();
  sizes.quantiles = {0.1, 0.75, 0.9};
  ForecastTask task(ctx, {.csv = (folder / "noise.csv").string(), .batch_size = 64}, sizes);
  EXPECT_EQ(task.quantiles(), (std::vector<double>{0.1, 0.5, 0.75, 0.9}));  // the median is the point forecast
  const TrainConfig training{.save_dir = (folder / "model").string(),
                             .max_epoch = 12,
                             .lr = 2e-3F,
                             .lr_scheduler = Schedule::Kind::cosine,
                             .warmup_updates = 10,
                             .best_metric = "pinball",
                             .quiet = true};
  Trainer(ctx, task, training).run();
  task.load(ctx, training.save_dir);
  EXPECT_EQ(task.metrics(), names_of(task.validate(ctx)));
  EXPECT_NEAR(task.test(ctx)->scaled().coverage, 0.8, 0.06);

  const Forecaster forecaster = Forecaster::load(ctx, training.save_dir);
  EXPECT_EQ(forecaster.quantiles().size(), 4U);
  EXPECT_NEAR(forecaster.evaluate(ctx, noise, task.windows().parts().test).scaled().coverage, task.test(ctx)->scaled().coverage, 1e-9);
  const SeriesForecast next = forecaster.forecast(ctx, noise, 10);
  EXPECT_EQ(next.table().channels, (std::vector<std::string>{"price", "price_q10", "price_q75", "price_q90"}));
  EXPECT_EQ(next.table().rows(), 10);
  double low = 0.0, high = 0.0;
  for (std::int64_t row = 0; row < 10; ++row) {
    for (std::int64_t q = 0; q + 1 < 4; ++q) EXPECT_LE(next.at(row, 0, q), next.at(row, 0, q + 1));
    EXPECT_EQ(next.at(row, 0, 1), next.point.at(row, 0));
    EXPECT_EQ(next.table().at(row, 2), next.at(row, 0, 2));
    if (row < 7) low += next.at(row, 0, 0) / 7, high += next.at(row, 0, 3) / 7;  // beyond it the forecast is fed back
  }
  EXPECT_NEAR(low, 20.0 - 1.2816 * 3.0, 1.5);  // in the units of the table; a window's own mean and deviation are off by less
  EXPECT_NEAR(high, 20.0 + 1.2816 * 3.0, 1.5);
}

// Heads that are not trained yet give their quantiles in any order; what is forecast never crosses.
TEST(Forecast, QuantilesNeverCross) {
  const TemporaryFolder folder;
  Context ctx({.seed = 2});
  ForecastModelConfig sizes = documents();
  sizes.quantiles = {0.05, 0.25, 0.5, 0.75, 0.95};
  ForecastTask task(ctx, {.series = toy_prices()}, sizes);
  task.save(folder.path());
  std::vector<float> past, future;
  task.windows().take(task.windows().parts().test, std::vector<std::int64_t>{0}, past, future);
  const std::vector<float> raw =
      task.model().run(ctx, {{"past_values", Tensor::from<float>(ctx, {1, 30, 1}, past)}}).at("quantile_outputs").to_vector<float>();
  EXPECT_FALSE(std::is_sorted(raw.begin(), raw.begin() + 5) && std::is_sorted(raw.begin() + 5, raw.begin() + 10));
  const SeriesForecast next = Forecaster::load(ctx, folder.path()).forecast(ctx, task.table());
  for (std::int64_t row = 0; row < 7; ++row) {
    for (std::int64_t q = 0; q + 1 < 5; ++q) EXPECT_LE(next.at(row, 0, q), next.at(row, 0, q + 1));
    EXPECT_EQ(next.at(row, 0, 2), next.point.at(row, 0));
  }
}

TEST(Forecast, QuantilesThatMakeNoModelAreRefused) {
  const auto message = [](std::vector<double> quantiles, std::optional<SeriesLoss> loss = {}, const std::string& csv = "") -> std::string {
    ForecastModelConfig sizes = documents();
    sizes.quantiles = std::move(quantiles);
    Context ctx;
    try {
      ForecastTask(ctx, {.csv = csv, .series = csv.empty() ? std::optional(toy_prices()) : std::nullopt, .loss = loss}, sizes);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({0.1, 1.5}).find("between 0 and 1"), std::string::npos);
  EXPECT_NE(message({0.9, 0.1}).find("quantiles is 0.9,0.1: expected each to be larger"), std::string::npos);
  EXPECT_NE(message({0.1, 0.9}, SeriesLoss::mae).find("leave out `loss` or `quantiles`"), std::string::npos);
  const TemporaryFolder folder;
  SeriesTable table = toy_prices(300);
  table.channels = {"a", "a_q10"};
  table.values = toy_prices(600).values;
  write(folder / "x.csv", write_table(table));
  EXPECT_NE(message({0.1, 0.9}, {}, (folder / "x.csv").string()).find("'a_q10'"), std::string::npos);
  EXPECT_EQ(message({0.2, 0.8}, {}, (folder / "x.csv").string()), "");
}

TEST(Forecast, TargetsAreJudgedAndForecast) {
  const TemporaryFolder folder;
  write(folder / "x.csv", three_channels(300));
  Context ctx({.seed = 1});
  ForecastTask task(ctx, {.csv = (folder / "x.csv").string(), .target = {"c,a"}}, documents());
  EXPECT_EQ(task.notes().targets, (std::vector<std::int64_t>{0, 2}));
  const ForecastErrors errors = *task.test(ctx);
  EXPECT_NEAR(errors.scaled().mse, (errors.scaled(0).mse + errors.scaled(2).mse) / 2, 1e-12);
  EXPECT_NEAR(errors.original(2).mae, errors.original(0).mae * 1000.0, errors.original(2).mae * 1e-3);
  fs::create_directory(folder / "model");
  task.save(folder / "model");
  const Forecaster forecaster = Forecaster::load(ctx, folder / "model");
  EXPECT_EQ(forecaster.forecast(ctx, task.table()).point.channels, (std::vector<std::string>{"a", "c"}));
  EXPECT_THROW(ForecastTask(ctx, {.csv = (folder / "x.csv").string(), .target = {"d"}}, documents()), Error);
}

// Weights that all channels share go on with another number of them; the scale is the new data's.
TEST(Forecast, TrainsFurtherOnOtherChannels) {
  const TemporaryFolder folder;
  write(folder / "x.csv", three_channels(300));
  Context ctx({.seed = 1});
  ForecastTask first = toy_task(ctx);
  fs::create_directory(folder / "start"), fs::create_directory(folder / "model");
  first.save(folder / "start");
  ForecastTask further(ctx, {.csv = (folder / "x.csv").string()}, ForecastFineTuning{.from = (folder / "start").string(), .dropout = 0.5F});
  EXPECT_EQ(further.model().config().at("num_input_channels"), 3);
  EXPECT_EQ(further.model().config().at("ff_dropout"), 0.5);
  further.save(folder / "model");
  EXPECT_EQ(SeriesNotes::load(folder / "model").channels.size(), 3U);
  EXPECT_EQ(further.parameters().front().parameter->tensor.to_vector<float>(),
            first.parameters().front().parameter->tensor.to_vector<float>());
  EXPECT_THROW(ForecastTask(ctx, {.series = toy_prices()}, ForecastFineTuning{.from = (folder / "start").string(), .dropout = 1.5F}),
               Error);
}

TEST(Forecast, SizesThatMakeNoModelAreRefused) {
  for (const auto change : std::vector<void (*)(ForecastModelConfig&)>{
           [](ForecastModelConfig& c) { c.patch_length = 30; }, [](ForecastModelConfig& c) { c.stride = 0; },
           [](ForecastModelConfig& c) { c.num_heads = 5; }, [](ForecastModelConfig& c) { c.dropout = 1.0F; },
           [](ForecastModelConfig& c) { c.horizon = -1; }}) {
    ForecastModelConfig config = documents();
    change(config);
    EXPECT_THROW(patchtst_config(config, 1), Error);
  }
}

TEST(Forecast, NotesKeepTheDateColumn) {
  const TemporaryFolder folder;
  const SeriesNotes notes{.channels = {"a"}, .targets = {0}, .scaler = {{1.0}, {2.0}}, .step = "1 day", .date_column = "day"};
  notes.save(folder.path());
  EXPECT_EQ(SeriesNotes::load(folder.path()).date_column, "day");
  // As it was written before there was one.
  write(folder / "series.json", R"({"channels":["a"],"targets":["a"],"mean":[0],"deviation":[1],"step":""})");
  EXPECT_EQ(SeriesNotes::load(folder.path()).date_column, "");
}

TEST(Forecast, NotesThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  for (const char* notes : {"{}", "[]", R"({"channels":["a"],"targets":["b"],"mean":[0],"deviation":[1],"step":""})",
                            R"({"channels":["a"],"targets":["a"],"mean":[0],"deviation":[0],"step":""})",
                            R"({"channels":["a"],"targets":["a"],"mean":[0,1],"deviation":[1],"step":""})",
                            R"({"channels":"a","targets":["a"],"mean":[0],"deviation":[1],"step":""})",
                            R"({"channels":["a"],"targets":["a"],"mean":[0],"deviation":[1],"step":"","date_column":3})"}) {
    write(folder / "series.json", notes);
    EXPECT_THROW(SeriesNotes::load(folder.path()), Error) << notes;
  }
}

}  // namespace transformer::test
