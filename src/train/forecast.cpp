#include "transformer/train/forecast.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "nn/shared/check_sizes.h"
#include "train/batch_size.h"
#include "train/probability.h"
#include "train/shares.h"
#include "transformer/core/setting_error.h"
#include "transformer/core/shuffle.h"
#include "transformer/ops/activation.h"
#include "transformer/ops/elementwise.h"
#include "transformer/ops/reduce.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Preset {
  std::string_view name;
  std::int64_t context, horizon, patch, stride, d_model, heads, d_ff, layers;
  float dropout;
};
constexpr std::array presets = {
    Preset{"documents", 30, 7, 6, 3, 32, 4, 64, 2, 0.1F},
    Preset{"small", 336, 96, 16, 8, 16, 4, 128, 3, 0.3F},
    Preset{"base", 336, 96, 16, 8, 128, 16, 256, 3, 0.2F},
};

void set_dropouts(json& config, const std::optional<float>& dropout, const std::optional<float>& attention,
                  const std::optional<float>& head) {
  const DropoutKeys& keys = patchtst_family().dropout;
  set_dropout(config, "train forecast", "dropout", dropout, keys.all);
  set_dropout(config, "train forecast", "attention_dropout", attention, keys.attention);
  set_dropout(config, "train forecast", "head_dropout", head, {"head_dropout"});
}

// The channels of a table that these names are; "a,b" is two. All of them when there are none.
std::vector<std::int64_t> targets_of(const SeriesTable& table, const std::vector<std::string>& given) {
  std::vector<std::int64_t> out;
  const auto find = [&](const std::string& name) { return std::find(table.channels.begin(), table.channels.end(), name); };
  const auto add = [&](const std::string& name) {
    const auto found = find(name);
    if (found == table.channels.end())
      fail(table.name, "the target '{}' is not one of the channels {}{}", name, fmt::join(table.channels, ", "),
           did_you_mean(name, table.channels));
    out.push_back(found - table.channels.begin());
  };
  for (const std::string& name : given) {
    if (find(name) != table.channels.end()) add(name);
    else
      for (const std::string& part : split_names(name)) add(part);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  for (std::int64_t i = 0; given.empty() && i < std::ssize(table.channels); ++i) out.push_back(i);
  return out;
}

}  // namespace

std::vector<std::string> preset_names(const ForecastModelConfig&) {
  std::vector<std::string> names;
  for (const Preset& p : presets) names.emplace_back(p.name);
  return names;
}

void apply_preset(std::string_view name, ForecastModelConfig& config) {
  for (const Preset& p : presets) {
    if (p.name != name) continue;
    config.context = p.context, config.horizon = p.horizon;
    config.patch_length = p.patch, config.stride = p.stride;
    config.d_model = p.d_model, config.num_heads = p.heads, config.d_ff = p.d_ff, config.num_layers = p.layers;
    config.dropout = p.dropout;
    return;
  }
  const std::vector<std::string> known = preset_names(config);
  fail("preset", "'{}' is not one of {}{}", name, fmt::join(known, ", "), did_you_mean(name, known));
}

ForecastModelConfig fitted(const ForecastModelConfig& config, const Parts& parts) {
  constexpr std::int64_t enough = 32;  // windows
  const std::int64_t rows = parts.train.size();
  ForecastModelConfig out = config;
  bool fits = config.horizon <= rows && config.context <= rows - config.horizon && rows - config.horizon - config.context + 1 >= enough;
  for (const RowRange& part : {parts.validation, parts.test}) {
    fits = fits && (part.size() == 0 || part.size() >= config.horizon);
    if (part.size() > 0) out.horizon = std::min(out.horizon, part.size());
  }
  if (fits) return config;
  out.horizon = std::clamp<std::int64_t>(rows / 8, 1, out.horizon);
  out.context = std::clamp<std::int64_t>((rows - out.horizon) / 2, 2, std::max<std::int64_t>(2, config.context));
  out.patch_length = std::clamp<std::int64_t>(out.context / 4, 1, config.patch_length);
  out.stride = std::clamp<std::int64_t>(out.patch_length / 2, 1, config.stride);
  return out;
}

json patchtst_config(const ForecastModelConfig& c, std::int64_t channels) {
  for (const auto& [name, value] : {std::pair{"context", c.context},
                                    {"horizon", c.horizon},
                                    {"patch_length", c.patch_length},
                                    {"stride", c.stride},
                                    {"d_model", c.d_model},
                                    {"num_heads", c.num_heads},
                                    {"num_layers", c.num_layers},
                                    {"d_ff", c.d_ff}})
    if (value < 1) wrong_setting("train forecast", name, "is {}: expected 1 or more", value);
  if (c.patch_length >= c.context)
    wrong_setting("train forecast", "patch_length", "is {} and `context` {}: patches must be shorter than what they are cut from",
                  c.patch_length, c.context);
  check_width("train forecast", c.d_model, c.num_heads);
  json out = config_of(patchtst_family(), "ForPrediction");
  out.update({{"num_input_channels", channels},
              {"context_length", c.context},
              {"prediction_length", c.horizon},
              {"patch_length", c.patch_length},
              {"patch_stride", c.stride},
              {"d_model", c.d_model},
              {"num_attention_heads", c.num_heads},
              {"num_hidden_layers", c.num_layers},
              {"ffn_dim", c.d_ff},
              {"activation_function", "gelu"},
              {"norm_type", detail::write_value(c.norm, "norm")},
              {"pre_norm", c.pre_norm},
              {"positional_encoding_type", detail::write_value(c.positions, "positions")},
              {"scaling", c.instance_norm ? json("std") : json(nullptr)},
              {"share_embedding", true},
              {"share_projection", !c.individual},
              {"use_cls_token", false},
              {"pooling_type", nullptr},
              {"do_mask_input", false},
              {"loss", "mse"}});
  if (!c.quantiles.empty()) {
    if (const std::string wrong = why_not_quantiles(c.quantiles); !wrong.empty())
      wrong_setting("train forecast", "quantiles", "is {}: {}", fmt::join(c.quantiles, ","), wrong);
    std::set<double> with_median(c.quantiles.begin(), c.quantiles.end());
    with_median.insert(0.5);
    out["quantiles"] = with_median;
  }
  set_dropouts(out, c.dropout, c.attention_dropout, c.head_dropout);
  return out;
}

ForecastTask::ForecastTask(Context& ctx, const ForecastConfig& config, const ForecastModelConfig& model,
                           const std::optional<fs::path>& resumed)
    : ModelTask(ctx, "train forecast"), config_(config) {
  static_cast<void>(patchtst_config(model, 1));  // says what is wrong with the sizes before the data are read
  check_fresh(resumed);
  read();
  const ForecastModelConfig smaller = fitted(model, parts_), &taken = model.fit ? smaller : model;
  cut({taken.context, taken.horizon},
      fmt::format("smaller sizes, such as --context {} --horizon {} --patch-length {} --stride {}", smaller.context, smaller.horizon,
                  smaller.patch_length, smaller.stride));
  build_model(patchtst_config(taken, std::ssize(table_.channels)));
  check_model();
}

ForecastTask::ForecastTask(Context& ctx, const ForecastConfig& config, const ForecastFineTuning& start)
    : ModelTask(ctx, "train forecast"), config_(config) {
  read();
  open_model(
      start.from,
      [&](const json& from) {
    json changes = json::object();
    set_dropouts(changes, start.dropout, start.attention_dropout, start.head_dropout);
    const auto shared = [&](const char* key) { return from.value(key, json(true)) == true; };
    if (shared("share_embedding") && shared("share_projection")) changes["num_input_channels"] = table_.channels.size();
    return changes;
      },
      why_not_forecaster, start.lora);
  const PatchTSTConfig& series = this->series();
  if (series.channels != std::ssize(table_.channels))
    fail(table_.name, "has {} channels, but each of the {} of {} has weights of its own", table_.channels.size(), series.channels,
         start.from);
  cut({series.context, series.ahead});
  check_model();
}

void ForecastTask::read() {
  if (config_.batch_size < 0) wrong_setting(name(), "batch_size", "is {}: expected 0 or more", config_.batch_size);
  if (config_.csv.empty() != config_.series.has_value()) wrong_setting(name(), "", "the series is missing or given twice: give one");
  table_ = config_.series ? *std::exchange(config_.series, {}) : read_csv(config_.csv, config_.table);
  parts_ = split_rows(table_, config_.split);
  notes_ = {.channels = table_.channels,
            .targets = targets_of(table_, config_.target),
            .scaler = {},  // see cut
            .step = table_.dates.empty() ? "" : describe(table_.step(), table_.format),
            .date_column = table_.date_column};
}

void ForecastTask::cut(const WindowSizes& sizes, const std::string& instead) {
  check_windows(table_, parts_, sizes, instead);
  notes_.scaler = Scaler::fit(table_, parts_.train);
  windows_.emplace(table_, notes_.scaler, parts_, sizes);
  if (config_.batch_size == 0) config_.batch_size = batch_for(windows_->count(parts_.train), ForecastConfig::usual_batch_size, 8);
}

void ForecastTask::check_model() {
  const PatchTSTConfig& series = this->series();
  if (!series.quantiles.empty()) {
    static_cast<void>(forecast_columns(notes_.channels, series.quantiles));  // no two of one name
    if (config_.loss)
      wrong_setting(name(), "loss", "is {}: a model with quantiles is trained on the pinball loss; leave out `loss` or `quantiles`",
                    detail::write_value(*config_.loss, "loss").get<std::string>());
  }
  // Batch norm takes its statistics over all patches of a batch, of which there must be two.
  const std::int64_t patches = series.channels * (series.patches() + (series.cls_token ? 1 : 0));  // of a window
  least_windows_ = series.stack.batch_norm && patches < 2 ? 2 : 1;
  if (const std::int64_t largest = std::min(config_.batch_size, windows_->count(parts_.train)); largest < least_windows_)
    fail(name(),
         "a batch has {} window, of one channel and one patch, but the model's batch norm needs two patches or more; give larger batches "
         "(--batch-size), more rows or smaller patches (--patch-length, --stride), or choose --norm layernorm",
         largest);
}

json ForecastTask::identity() const {
  json out = model_identity();
  const auto rows = [](const RowRange& range) { return json{range.begin, range.end}; };
  out["data"] = {{"fingerprint", hex(windows_->fingerprint())},
                 {"channels", notes_.channels},
                 {"targets", notes_.targets},
                 {"training_rows", rows(parts_.train)},
                 {"validation_rows", rows(parts_.validation)},
                 {"batch_size", config_.batch_size}};
  out["training_loss"] = {{"kind", quantiles().empty() ? detail::write_value(config_.loss.value_or(SeriesLoss::mse), "loss") : "pinball"}};
  return out;
}

json ForecastTask::evaluation() const { return {{"test_rows", json{parts_.test.begin, parts_.test.end}}}; }

std::int64_t ForecastTask::plan(std::int64_t epoch) {
  order_ = shuffled(windows_->count(parts_.train), seed(), epoch);
  return batches();
}

std::int64_t ForecastTask::batches() const {
  const std::int64_t full = std::ssize(order_) / config_.batch_size, left = std::ssize(order_) % config_.batch_size;
  return left < least_windows_ ? full : full + 1;  // what is too little for a batch goes to the one before
}

Batch ForecastTask::prepare(std::int64_t index, const Share& share) const {
  const std::int64_t first = index * config_.batch_size;
  const std::int64_t whole = index + 1 == batches() ? std::ssize(order_) - first : config_.batch_size;
  SampleRange range = range_of(share, whole / least_windows_);  // a part is a batch to batch norm
  range.begin *= least_windows_, range.end = share.part + 1 == share.parts ? whole : range.end * least_windows_;
  const std::int64_t begin = first + range.begin, n = range.size();
  if (n == 0) return {};
  const std::int64_t channels = windows_->channels();
  const auto [context, horizon] = windows_->sizes();
  std::vector<float> past, future;
  windows_->take(parts_.train, std::span(order_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n)), past, future);
  HostTensors content;
  content["past_values"] = {{n, context, channels}, std::move(past)};
  content["future_values"] = {{n, horizon, channels}, std::move(future)};
  return {.content = std::move(content), .targets = n * horizon * channels, .tokens = n};
}

// The model's own loss is the squared error, or that of its quantiles.
Tensor ForecastTask::loss(Context& ctx, const Batch& batch) const {
  if (config_.loss.value_or(SeriesLoss::mse) == SeriesLoss::mse) return ModelTask::loss(ctx, batch);
  NamedTensors in = to_tensors(ctx, *std::any_cast<HostTensors>(&batch.content));
  const Tensor wanted = in.at("future_values");
  in.erase("future_values");
  const Tensor e = abs(ctx, sub(ctx, cast(ctx, model().run(ctx, in).at("prediction_outputs"), DType::float32), wanted));
  if (config_.loss == SeriesLoss::mae) return mean(ctx, e);
  const Tensor small = sub(ctx, e, relu(ctx, sub(ctx, e, Tensor::full(ctx, {1}, 1.0F))));  // min(e, 1)
  return mean(ctx, mul(ctx, small, sub(ctx, e, scale(ctx, small, 0.5F))));
}

Metrics ForecastTask::validate(Context& ctx) {
  if (parts_.validation.size() == 0) return {};
  const ForecastErrors errors = measure(ctx, model(), *windows_, parts_.validation, notes_);
  const ForecastErrors::Means all = errors.all_scaled(), targets = errors.scaled();
  if (quantiles().empty()) return {{"loss", all.mse}, {"mse", targets.mse}, {"mae", targets.mae}};
  return {{"loss", all.pinball}, {"mse", targets.mse}, {"mae", targets.mae}, {"pinball", targets.pinball}, {"coverage", targets.coverage}};
}

std::vector<std::string> ForecastTask::metrics() const {
  if (parts_.validation.size() == 0) return {};
  if (quantiles().empty()) return {"loss", "mse", "mae"};
  return {"loss", "mse", "mae", "pinball", "coverage"};
}

std::optional<ForecastErrors> ForecastTask::test(Context& ctx) const {
  if (parts_.test.size() == 0) return std::nullopt;
  return measure(ctx, model(), *windows_, parts_.test, notes_);
}

void ForecastTask::save(const fs::path& folder) {
  ModelTask::save(folder);
  if (!started_from().empty()) save_beside(folder);  // the scale is that of these data
}

}  // namespace transformer
