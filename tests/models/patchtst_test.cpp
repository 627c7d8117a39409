// What the golden case does not show of PatchTST.
#include "transformer/models/patchtst.h"

#include <set>

#include "models/fresh_model.h"
#include "support/change.h"
#include "support/op_check.h"
#include "support/temporary_folder.h"
#include "transformer/models/label_loss.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/random.h"
#include "transformer/train/optimizer.h"

namespace transformer::test {
namespace {

using nlohmann::json;

const json base{
    {"model_type", "patchtst"}, {"d_model", 16},     {"num_attention_heads", 2}, {"num_hidden_layers", 2},  {"ffn_dim", 24},
    {"context_length", 17},     {"patch_length", 4}, {"patch_stride", 3},        {"num_input_channels", 2}, {"prediction_length", 5}};

Tensor predict(Context& ctx, const Model& model, const Tensor& x) { return model.run(ctx, {{"past_values", x}}).at("prediction_outputs"); }

Tensor parameter(Model& model, const std::string& theirs) {
  for (const Binding& b : model.bindings())
    if (b.theirs == theirs) return b.ours.parameter->tensor;
  ADD_FAILURE() << "there is no " << theirs;
  return {};
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double worst = 0.0;
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(x[i]) - y[i]));
  return worst;
}

}  // namespace

// 17 values in patches of 4 with stride 3 leave one over: the first.
TEST(PatchTST, WhatFillsNoPatchIsLeftOutAtTheBeginning) {
  Context ctx;
  const auto model = fresh(ctx, with(base, {{"scaling", nullptr}}));
  const Tensor x = random_uniform(ctx, {1, 17, 2});
  auto changed = [&](std::size_t at) {
    std::vector<float> values = x.to_vector<float>();
    values[at] += 1.0F;
    return largest_difference(predict(ctx, *model, x), predict(ctx, *model, Tensor::from<float>(ctx, x.shape(), values)));
  };
  EXPECT_EQ(changed(0), 0.0);
  EXPECT_GT(changed(2), 1e-5);
  EXPECT_GT(changed(33), 1e-5);
}

// Scaled in and out: a series in other units is predicted in those.
TEST(PatchTST, PredictsInTheUnitsOfTheSeries) {
  Context ctx;
  const auto model = fresh(ctx, base);
  const Tensor x = scale(ctx, random_uniform(ctx, {3, 17, 2}), 100.0F);  // the 1e-5 in the deviation is small against it
  const Tensor moved = add(ctx, scale(ctx, x, 3.0F), Tensor::full(ctx, {1}, 50.0F));
  const Tensor want = add(ctx, scale(ctx, predict(ctx, *model, x), 3.0F), Tensor::full(ctx, {1}, 50.0F));
  EXPECT_LT(largest_difference(predict(ctx, *model, moved), want), 1e-2);
}

TEST(PatchTST, ChannelsDoNotMeet) {
  Context ctx;
  const auto model = fresh(ctx, base);
  const Tensor x = random_uniform(ctx, {1, 17, 2});
  std::vector<float> values = x.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 2) values[i] *= 2.0F * static_cast<float>(i);
  const std::vector<float> a = predict(ctx, *model, x).to_vector<float>(),
                           b = predict(ctx, *model, Tensor::from<float>(ctx, x.shape(), values)).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); i += 2) {
    EXPECT_NE(a[i], b[i]);
    EXPECT_FLOAT_EQ(a[i + 1], b[i + 1]);
  }
}

// Layers of their own for each channel, with the same values in all: the shared model.
TEST(PatchTST, LayersOfEachChannel) {
  for (const char* pooling : {"mean", "max", "none"}) {
    Context ctx;
    const json config = with(base, {{"pooling_type", std::string(pooling) == "none" ? json(nullptr) : json(pooling)}});
    auto shared = fresh(ctx, config), own = fresh(ctx, with(config, {{"share_embedding", false}, {"share_projection", false}}));
    for (const Binding& b : own->bindings()) {
      std::string name = b.theirs;
      for (const auto& [from, to] : {std::pair{"input_embedding.0", "input_embedding"}, std::pair{"input_embedding.1", "input_embedding"},
                                     std::pair{"projections.0", "projection"}, std::pair{"projections.1", "projection"}})
        if (const auto at = name.find(from); at != std::string::npos) name.replace(at, std::strlen(from), to);
      for (const Binding& s : shared->bindings())
        if (s.theirs == name) b.from_theirs(ctx, s.to_theirs(ctx, s.ours.parameter->tensor), b.ours.parameter->tensor);
    }
    const Tensor x = random_uniform(ctx, {3, 17, 2});
    EXPECT_LT(largest_difference(predict(ctx, *shared, x), predict(ctx, *own, x)), 1e-5) << pooling;
    change(ctx, parameter(*own, "head.projections.1.bias"), [](std::vector<float>& bias) { bias[0] += 1.0F; });
    const std::vector<float> a = predict(ctx, *shared, x).to_vector<float>(), b = predict(ctx, *own, x).to_vector<float>();
    EXPECT_NEAR(a[0], b[0], 1e-5);
    EXPECT_GT(std::abs(a[1] - b[1]), 1e-3);
  }
}

// A head a quantile: the median's is the head of a model without quantiles, and the others are saved beside it.
TEST(PatchTST, QuantilesHaveHeadsBesideTheMedians) {
  for (const bool shared : {true, false}) {
    Context ctx({.seed = 3});
    const json plain = with(base, {{"share_projection", shared}}), config = with(plain, {{"quantiles", {0.1, 0.5, 0.75, 0.9}}});
    auto model = fresh(ctx, config);
    const std::string projection = shared ? "head.projection" : "head.projections.1", other = "head.quantile_projections.";
    const std::string third = other + "2" + (shared ? "" : ".1");
    EXPECT_EQ(parameter(*model, projection + ".weight").dim(0), 4 * 5);  // all of them, in one matrix
    std::set<std::string> names;
    for (const Binding& b : model->bindings()) names.insert(b.theirs);
    for (const std::string& name : {projection, third})
      for (const char* part : {".weight", ".bias"}) EXPECT_TRUE(names.contains(name + part)) << name;
    EXPECT_EQ(std::count_if(names.begin(), names.end(), [&](const std::string& n) { return n.starts_with(other); }), shared ? 6 : 12);

    const Tensor x = random_uniform(ctx, {3, 17, 2});
    const NamedTensors out = model->run(ctx, {{"past_values", x}});
    EXPECT_EQ(out.at("quantile_outputs").shape(), (Shape{3, 5, 2, 4}));
    EXPECT_EQ(out.at("prediction_outputs").shape(), (Shape{3, 5, 2}));
    const std::vector<float> all = out.at("quantile_outputs").to_vector<float>(), point = out.at("prediction_outputs").to_vector<float>();
    for (std::size_t i = 0; i < point.size(); ++i) EXPECT_EQ(point[i], all[4 * i + 1]);

    const TemporaryFolder folder;
    save_model(ctx, *model, folder.path());
    const auto again = load_model(ctx, folder.path());
    EXPECT_EQ(again->run(ctx, {{"past_values", x}}).at("quantile_outputs").to_vector<float>(), all);

    // What Hugging Face makes of the folder: a model of the median.
    auto median = fresh(ctx, plain);
    for (const Binding& b : median->bindings())
      for (const Binding& m : model->bindings())
        if (m.theirs == b.theirs) b.from_theirs(ctx, m.to_theirs(ctx, m.ours.parameter->tensor), b.ours.parameter->tensor);
    EXPECT_LT(largest_difference(predict(ctx, *median, x), out.at("prediction_outputs")), 1e-6);
  }
}

// In the units of the series, as the point is; and learned by the pinball loss.
TEST(PatchTST, QuantilesAreInTheUnitsOfTheSeriesAndLearnedByThePinballLoss) {
  Context ctx;
  const std::vector<double> quantiles{0.1, 0.5, 0.9};
  const auto model = fresh(ctx, with(base, {{"quantiles", quantiles}}));
  const auto run = [&](const Tensor& x) { return model->run(ctx, {{"past_values", x}}).at("quantile_outputs"); };
  const Tensor x = scale(ctx, random_uniform(ctx, {3, 17, 2}), 100.0F), y = scale(ctx, random_uniform(ctx, {3, 5, 2}), 100.0F);
  const Tensor offset = Tensor::full(ctx, {1}, 50.0F);
  const Tensor want = add(ctx, scale(ctx, run(x), 3.0F), offset);
  EXPECT_LT(largest_difference(run(add(ctx, scale(ctx, x, 3.0F), offset)), want), 1e-2);

  const std::vector<float> got = run(x).to_vector<float>(), actual = y.to_vector<float>();
  double sum = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = static_cast<double>(actual[i / 3]) - static_cast<double>(got[i]), q = quantiles[i % 3];
    sum += e > 0.0 ? q * e : (q - 1.0) * e;
  }
  EXPECT_NEAR(model->run(ctx, {{"past_values", x}, {"future_values", y}}).at("loss").item(), sum / static_cast<double>(got.size()), 1e-4);
}

TEST(PatchTST, PinballLossAndItsGradients) {
  const std::vector<double> quantiles{0.1, 0.5, 0.9};
  check_op(
      {.name = "pinball_loss", .inputs = {{.shape = {2, 3, 3}, .low = 1.1, .high = 2.0}, {.shape = {2, 3}, .low = 0.0, .high = 1.0}}},
      [&](Context& ctx, const Tensors& in) {
    return add(ctx, pinball_loss(ctx, in[0], in[1], quantiles), scale(ctx, pinball_loss(ctx, neg(ctx, in[0]), in[1], quantiles), 2.0F));
      },
      [&](const auto& in) {
    auto y = in[1];
    y.shape = {1}, y.values.resize(1);
    auto sum = y.values[0] * 0.0;
    for (std::int64_t i = 0; i < 18; ++i) {
      const auto q = quantiles[static_cast<std::size_t>(i % 3)];
      sum = sum + (in[0][i] - in[1][i / 3]) * (1.0 - q) + (in[0][i] + in[1][i / 3]) * (2.0 * q);  // too high, and too low
    }
    y.values[0] = sum / 18.0;
    return y;
  });
  Context ctx;
  expect_error(
      [&] {
    pinball_loss(ctx, Tensor::zeros(ctx, {2, 3, 2}), Tensor::zeros(ctx, {2, 3}), quantiles);
      },
      {"[2, 3, 2]", "3 quantiles"});
}

// Training moves the running statistics; they are saved and read again, and the optimizer leaves them and the positions alone.
TEST(PatchTST, RunningStatisticsAreTrainedAndSaved) {
  Context ctx({.seed = 5});
  auto model = fresh(ctx, base);
  const Tensor x = random_uniform(ctx, {4, 17, 2}), y = random_uniform(ctx, {4, 5, 2});
  const std::string norm = "model.encoder.layers.1.norm_sublayer3.batchnorm.";
  const std::vector<float> mean = parameter(*model, norm + "running_mean").to_vector<float>();
  const std::vector<float> positions = parameter(*model, "model.encoder.positional_encoder.position_enc").to_vector<float>();
  Adam optimizer(ctx, model->parameters());
  float first = 0.0F, last = 0.0F;
  ctx.set_training(true);
  for (int step = 0; step < 100; ++step) {
    const Tensor loss = model->run(ctx, {{"past_values", x}, {"future_values", y}}).at("loss");
    (step == 0 ? first : last) = loss.item();
    backward(ctx, loss);
    optimizer.step(ctx, 3e-3F, 1.0F);
    optimizer.zero_gradients();
  }
  ctx.set_training(false);
  EXPECT_LT(last, 0.5F * first);
  EXPECT_NE(parameter(*model, norm + "running_mean").to_vector<float>(), mean);
  EXPECT_EQ(parameter(*model, norm + "num_batches_tracked").item(), 100.0F);
  EXPECT_EQ(parameter(*model, "model.encoder.positional_encoder.position_enc").to_vector<float>(), positions);

  const TemporaryFolder folder;
  save_model(ctx, *model, folder.path());
  const SafetensorsFile file(folder / "model.safetensors");
  EXPECT_EQ(file.stored_type(norm + "num_batches_tracked"), "I64");
  EXPECT_EQ(file.shape(norm + "num_batches_tracked").rank(), 0);
  const auto again = load_model(ctx, folder.path());
  EXPECT_EQ(predict(ctx, *again, x).to_vector<float>(), predict(ctx, *model, x).to_vector<float>());
}

// Fresh positions are Hugging Face's: sines and cosines moved to mean 0 and scaled to deviation 0.1.
TEST(PatchTST, FreshPositions) {
  Context ctx;
  auto model = fresh(ctx, base);
  const std::vector<float> table = parameter(*model, "model.encoder.positional_encoder.position_enc").to_vector<float>();
  double sum = 0.0, squares = 0.0;
  for (float v : table) sum += v, squares += static_cast<double>(v) * v;
  EXPECT_NEAR(sum, 0.0, 1e-5);
  EXPECT_NEAR(squares / static_cast<double>(table.size() - 1), 0.01, 1e-6);
  EXPECT_NEAR((table[1] - table[0]) / (table[17] - table[16]), 1.0 / (std::cos(1.0) - std::sin(1.0)), 1e-4);  // cos 0 - sin 0 = 1
}

TEST(PatchTST, ScalingSeesWhatWasObserved) {
  Context ctx;
  const Tensor x = tensor(ctx, {2, 3, 1}, {1, 3, 50, 4, -2, 60}), seen = tensor(ctx, {2, 3, 1}, {1, 1, 0, 0, 0, 0});
  const ScaledSeries std_scaled = scale_series(ctx, x, seen, SeriesScaling::deviation);
  expect_near(std_scaled.location, {2, 0}, 1e-6);
  expect_near(std_scaled.scale, {std::sqrt(1.0 + 1e-5), std::sqrt(1e-5)}, 1e-6);
  const ScaledSeries mean_scaled = scale_series(ctx, x, seen, SeriesScaling::mean);
  expect_near(mean_scaled.scale, {2, 2}, 1e-6);  // of the second nothing was seen: the batch's
  expect_near(mean_scaled.values, {0.5, 1.5, 25, 2, -1, 30}, 1e-6);
  expect_near(scale_series(ctx, x, {}, SeriesScaling::none).scale, {1, 1}, 0.0);
  expect_error([&] { scale_series(ctx, x, tensor(ctx, {2, 1, 1}, {1, 1}), SeriesScaling::mean); }, {"[2, 1, 1]", "[2, 3, 1]"});
}

TEST(PatchTST, RefusesByName) {
  auto refuses = [](const json& changes, const std::vector<std::string>& parts) {
    expect_error([&] { make_model(with(base, changes)); }, parts);
  };
  refuses({{"channel_attention", true}}, {"channel_attention"});
  refuses({{"loss", "nll"}}, {"loss", "nll"});
  refuses({{"norm_type", "rmsnorm"}}, {"norm_type", "batchnorm"});
  refuses({{"positional_encoding_type", "zeros"}}, {"positional_encoding_type"});
  refuses({{"scaling", "robust"}}, {"scaling", "robust"});
  refuses({{"pooling_type", "attention"}}, {"pooling_type"});
  refuses({{"context_length", 4}}, {"context_length"});
  refuses({{"output_range", {1}}}, {"output_range"});
  refuses({{"patch_lenght", 4}}, {"patch_lenght", "patch_length"});
  refuses({{"architectures", {"PatchTSTForPretraining"}}}, {"PatchTSTForPretraining", "PatchTSTForPrediction"});
  refuses({{"architectures", {"PatchTSTForRegression"}}, {"pooling_type", nullptr}}, {"pooling_type"});
  refuses({{"num_input_channels", 1 << 20}, {"share_embedding", false}}, {"num_input_channels"});
  refuses({{"quantiles", {0.1, 0.9}}}, {"quantiles", "0.5"});
  refuses({{"quantiles", {0.5, 0.1}}}, {"quantiles", "larger than the one before"});
  refuses({{"quantiles", {0.5, 0.5}}}, {"quantiles", "larger than the one before"});
  refuses({{"quantiles", {0.5, 1.0}}}, {"quantiles", "between 0 and 1"});
  refuses({{"quantiles", {0.5}}, {"architectures", {"PatchTSTModel"}}}, {"quantiles", "PatchTSTForPrediction"});
  Context ctx;
  const auto model = fresh(ctx, base);
  expect_error([&] { predict(ctx, *model, Tensor::zeros(ctx, {1, 16, 2})); }, {"[1, 16, 2]", "17"});
  expect_error(
      [&] {
    model->run(ctx, {{"past_values", Tensor::zeros(ctx, {1, 17, 2})}, {"target_values", Tensor::zeros(ctx, {1})}});
      },
      {"target_values", "future_values"});
}

}  // namespace transformer::test
