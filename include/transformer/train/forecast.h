#pragma once
// Training a model that forecasts a series: the task behind `transformer train forecast`.
//
//   Context ctx({.seed = 1});
//   ForecastTask task(ctx, {.csv = "ETTh1.csv", .split = {.split = "etth"}}, {.context = 336, .horizon = 96});
//   Trainer(ctx, task, {.save_dir = "model", .max_epoch = 20, .lr = 1e-4F}).run();
//   task.load(ctx, "model");                  // the best one
//   task.test(ctx).scaled().mse;
//
// The model is PatchTST: every channel is a series of its own, cut into patches; all of them go through one encoder. Its folder opens
// in Hugging Face; series.json beside it has the scale and the names of the channels.

#include <optional>
#include <string>
#include <vector>

#include "transformer/predict/forecaster.h"
#include "transformer/train/model_task.h"

namespace transformer {

enum class SeriesNorm : std::uint8_t { batchnorm, layernorm };
inline EnumNames<SeriesNorm> names(SeriesNorm) { return {{SeriesNorm::batchnorm, "batchnorm"}, {SeriesNorm::layernorm, "layernorm"}}; }

enum class SeriesPositions : std::uint8_t {
  sincos,  // sines and cosines, not trained
  random,  // a table that is trained
};
inline EnumNames<SeriesPositions> names(SeriesPositions) {
  return {{SeriesPositions::sincos, "sincos"}, {SeriesPositions::random, "random"}};
}

// The sizes and options of the model.
struct ForecastModelConfig {
  std::int64_t context = 336, horizon = 96;
  std::int64_t patch_length = 16, stride = 8;
  std::int64_t d_model = 128, num_heads = 16, num_layers = 3, d_ff = 256;
  float dropout = 0.2F, attention_dropout = 0.0F, head_dropout = 0.0F;
  SeriesNorm norm = SeriesNorm::batchnorm;
  bool pre_norm = false;
  SeriesPositions positions = SeriesPositions::sincos;
  bool instance_norm = true;
  bool individual = false;
  bool fit = false;  // smaller sizes of windows and patches where the rows are too few for these; see fitted
  std::vector<double> quantiles = {};

  static void visit(auto& self, auto&& field) {
    field("context", self.context, "look-back: rows that a forecast is made from");
    field("horizon", self.horizon, "rows that are forecast");
    field("patch_length", self.patch_length, "rows of a patch, which is one token");
    field("stride", self.stride, "rows from one patch to the next");
    field("d_model", self.d_model, "width of the model");
    field("num_heads", self.num_heads, "attention heads; must divide d_model");
    field("num_layers", self.num_layers, "encoder layers");
    field("d_ff", self.d_ff, "width of the feed-forward layers");
    field("dropout", self.dropout, "dropout of patches, sublayers and feed-forward layers");
    field("attention_dropout", self.attention_dropout, "dropout of attention weights");
    field("head_dropout", self.head_dropout, "dropout in front of the head");
    field("norm", self.norm, "kind of the norms");
    field("pre_norm", self.pre_norm, "norms in front of the sublayers instead of behind them");
    field("positions", self.positions, "sines and cosines, or a table that is trained");
    field("instance_norm", self.instance_norm, "scale every window by its own mean and deviation, and its forecast back");
    field("individual", self.individual, "a head for each channel instead of one for all");
    field("quantiles", self.quantiles,
          "forecast these quantiles too, such as 0.1,0.9: a head for each, and one for the median, which is the point forecast (none: "
          "one value)");
  }
};

//               context  horizon  patch  stride  d_model  heads  d_ff  layers  dropout
//   documents        30        7      6       3       32      4    64       2      0.1   30 days in 9 patches of 6 days
//   small           336       96     16       8       16      4   128       3      0.3   PatchTST's for small sets, such as ETTh1
//   base            336       96     16       8      128     16   256       3      0.2   and for larger ones
std::vector<std::string> preset_names(const ForecastModelConfig&);
// Sets the sizes above; all other settings stay as they are.
void apply_preset(std::string_view name, ForecastModelConfig& config);

// With a context, a horizon and patches that leave some windows to train on, of these parts; the same where these do.
ForecastModelConfig fitted(const ForecastModelConfig& config, const Parts& parts);

// config.json of Hugging Face's PatchTSTForPrediction, and "quantiles" where there are any. Error where the sizes make no model.
nlohmann::json patchtst_config(const ForecastModelConfig& config, std::int64_t channels);

// What training makes small, over all values of a batch. The absolute error cares less for the few that cannot be foreseen.
enum class SeriesLoss : std::uint8_t {
  mse,
  mae,
  huber,  // e²/2 up to 1, |e| - 1/2 beyond
};
inline EnumNames<SeriesLoss> names(SeriesLoss) {
  return {{SeriesLoss::mse, "mse"}, {SeriesLoss::mae, "mae"}, {SeriesLoss::huber, "huber"}};
}

struct ForecastConfig {
  std::string csv = {};
  std::optional<SeriesTable> series = {};  // a table that is there already, instead of a file
  TableOptions table = {};
  SplitConfig split = {};
  std::vector<std::string> target = {};  // channels; empty: all
  std::optional<SeriesLoss> loss = {};
  static constexpr std::int64_t usual_batch_size = 128;
  std::int64_t batch_size = 0;

  static void visit(auto& self, auto&& field) {
    field("csv", self.csv, "the series: a row of names, a date column, numeric channels; .gz too");
    TableOptions::visit(self.table, field);
    SplitConfig::visit(self.split, field);
    field("target", self.target, "channels that are forecast and judged; the others are learned from as well (none: all)");
    field("loss", self.loss, "error that training makes small (none: mse; with quantiles it is the pinball loss)");
    field("batch_size", self.batch_size,
          "windows of a batch, each with all channels (0: 128, or less where an epoch would have few updates)");
  }
};

// A model that is trained further instead of a fresh one: a folder of a PatchTST model that predicts. Its sizes stay; the number of
// channels may be another one where all of them share their weights.
struct ForecastFineTuning {
  std::string from = {};
  LoraConfig lora = {};
  std::optional<float> dropout = {}, attention_dropout = {}, head_dropout = {};  // others than its config.json says

  static void visit(auto& self, auto&& field) {
    field("from", self.from,
          "train this model further: a folder of a PatchTST model. Its sizes stay; so does its dropout, but where a flag sets it");
    LoraConfig::visit(self.lora, field);
  }
};

class ForecastTask final : public ModelTask {
 public:
  // Reads the data and makes the model. `resumed`: the checkpoint that training will go on from.
  ForecastTask(Context& ctx, const ForecastConfig& config, const ForecastModelConfig& model,
               const std::optional<std::filesystem::path>& resumed = std::nullopt);
  ForecastTask(Context& ctx, const ForecastConfig& config, const ForecastFineTuning& start);

  const SeriesTable& table() const { return table_; }
  const SeriesWindows& windows() const { return *windows_; }
  const SeriesNotes& notes() const { return notes_; }
  const std::vector<double>& quantiles() const { return series().quantiles; }
  // Errors on the test windows with the weights as they are; nothing when there is no test part.
  std::optional<ForecastErrors> test(Context& ctx) const;

  TaskWords words() const override { return {.unit = "win", .units = "windows", .perplexity = false}; }
  nlohmann::json identity() const override;
  nlohmann::json evaluation() const override;
  std::int64_t plan(std::int64_t epoch) override;
  Batch prepare(std::int64_t index, const Share& share = {}) const override;
  Tensor loss(Context& ctx, const Batch& batch) const override;
  // loss: the model's own, mse or pinball, over all channels; mse, mae, pinball, coverage: over the targets; in scaled units
  Metrics validate(Context& ctx) override;
  std::vector<std::string> metrics() const override;
  void save(const std::filesystem::path& folder) override;

 private:
  void save_beside(const std::filesystem::path& folder) const override { notes_.save(folder); }
  void read();                                                          // the table and its parts
  void cut(const WindowSizes& sizes, const std::string& instead = {});  // its scale and its windows
  void check_model();                                                   // that it and the settings fit each other and the data
  std::int64_t batches() const;                                         // of an epoch
  const PatchTSTConfig& series() const { return dynamic_cast<const PatchTSTModel&>(model()).series(); }

  ForecastConfig config_;
  SeriesTable table_;
  Parts parts_;
  SeriesNotes notes_;
  std::optional<SeriesWindows> windows_;
  std::int64_t least_windows_ = 1;   // that a batch must have
  std::vector<std::int64_t> order_;  // of the training windows in this epoch
};

}  // namespace transformer
