// Batch norm's running statistics go with the weights into averages: of a model that has them, through the task and its files.
#include <cmath>

#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/io/safetensors.h"
#include "transformer/toys/prices.h"
#include "transformer/train/forecast.h"
#include "transformer/train/trainer.h"

namespace transformer::test {

TEST(Statistics, AnAveragedModelHasTheMeanOfItsCheckpoints) {
  const TemporaryFolder folder;
  Context ctx({.threads = 2, .seed = 1});
  ForecastModelConfig model;
  apply_preset("documents", model);
  ForecastTask task(ctx, {.series = toy_prices()}, model);
  ASSERT_FALSE(task.statistics().empty());
  for (const NamedParameter& p : task.statistics()) EXPECT_FALSE(p.parameter->trained) << p.name;
  Trainer(ctx, task,
          {.save_dir = folder.path().string(),
           .max_update = 9,
           .lr = 1e-3F,
           .warmup_updates = 1,
           .save_interval_updates = 3,
           .average = 3,
           .quiet = true})
      .run();
  const SafetensorsFile average(folder / "average/model.safetensors");
  int compared = 0;
  for (const std::string& name : average.names()) {
    if (!name.ends_with(".running_mean") && !name.ends_with(".running_var")) continue;
    const std::vector<float> got = average.tensor(name).to_vector<float>();
    std::vector<double> mean(got.size(), 0.0), last;
    for (const int step : {3, 6, 9}) {
      const SafetensorsFile file(folder / fmt::format("checkpoints/step-{:08}/model.safetensors", step));
      last = detail::to_double(file.tensor(name));
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += last[i] / 3.0;
    }
    EXPECT_NE(mean, last) << name;
    for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(got[i], mean[i], 1e-5 * std::max(1.0, std::abs(mean[i]))) << name;
    ++compared;
  }
  EXPECT_EQ(compared, std::ssize(task.statistics()));
}

}  // namespace transformer::test
