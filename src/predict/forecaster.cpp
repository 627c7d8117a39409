#include "transformer/predict/forecaster.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/shared/share_out.h"
#include "io/shared/json.h"
#include "predict/finite.h"
#include "transformer/autograd/autograd.h"
#include "transformer/models/lora.h"

namespace transformer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* notes_file = "series.json";
constexpr std::int64_t most_steps = 100'000;

// Calls use(past, future) for the windows of a part, a few at a time; both as SeriesWindows::take gives them.
template <class Use>
void for_windows(const SeriesWindows& windows, const RowRange& part, Use&& use) {
  const auto [context, horizon] = windows.sizes();
  const std::int64_t each = (context + horizon) * windows.channels(), count = windows.count(part);
  const std::int64_t at_once = std::clamp<std::int64_t>((std::int64_t{1} << 20) / each, 1, 256);
  std::vector<float> past, future;
  for (std::int64_t begin = 0; begin < count; begin += at_once) {
    std::vector<std::int64_t> some(static_cast<std::size_t>(std::min(at_once, count - begin)));
    std::iota(some.begin(), some.end(), begin);
    windows.take(part, some, past, future);
    use(std::ssize(some), past, future);
  }
}

// [windows, horizon, channels], and behind them the model's quantiles, if any, in increasing order whatever their heads give.
std::vector<float> predictions(Context& ctx, const Model& model, const Shape& shape, const std::vector<float>& past,
                               const std::vector<double>& quantiles) {
  const NoGradients no_gradients(ctx);
  const NamedTensors out = model.run(ctx, {{"past_values", Tensor::from<float>(ctx, shape, past)}});
  std::vector<float> values = out.at(quantiles.empty() ? "prediction_outputs" : "quantile_outputs").to_vector<float>();
  const std::ptrdiff_t n = std::ssize(quantiles);
  const auto below = [](float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); };  // an order, whatever they are
  for (auto at = values.begin(); n > 0 && at != values.end(); at += n) std::sort(at, at + n, below);
  return values;
}

const std::vector<double>& quantiles_of(const Model& model) { return dynamic_cast<const PatchTSTModel&>(model).series().quantiles; }

std::vector<std::int64_t> all_of(std::int64_t n) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

}  // namespace

void SeriesNotes::save(const fs::path& folder) const {
  std::vector<std::string> of_targets;
  for (const std::int64_t target : targets) of_targets.push_back(channels[static_cast<std::size_t>(target)]);
  write_json(folder / notes_file,
             {{"channels", channels},
              {"targets", of_targets},
              {"mean", scaler.mean},
              {"deviation", scaler.deviation},
              {"step", step},
              {"date_column", date_column}});
}

SeriesNotes SeriesNotes::load(const fs::path& folder) {
  const fs::path path = folder / notes_file;
  const json from = read_json(path);
  SeriesNotes notes;
  try {
    from.at("channels").get_to(notes.channels);
    from.at("mean").get_to(notes.scaler.mean);
    from.at("deviation").get_to(notes.scaler.deviation);
    from.at("step").get_to(notes.step);
    notes.date_column = from.value("date_column", "");  // older files have none
    for (const auto& target : from.at("targets").get<std::vector<std::string>>()) {
      const auto found = std::find(notes.channels.begin(), notes.channels.end(), target);
      if (found == notes.channels.end()) fail(path.string(), "the target '{}' is not one of the channels", target);
      notes.targets.push_back(found - notes.channels.begin());
    }
  } catch (const json::exception& e) {
    fail(path.string(), "expected channels, targets, mean, deviation and step: {}", e.what());
  }
  const auto usable = [](double d) { return std::isfinite(d); };
  const auto& [mean, deviation] = notes.scaler;
  if (notes.channels.empty() || notes.targets.empty() || mean.size() != notes.channels.size() || deviation.size() != mean.size() ||
      !std::all_of(mean.begin(), mean.end(), usable) ||
      !std::all_of(deviation.begin(), deviation.end(), [&](double d) { return usable(d) && d > 0.0; }))
    fail(path.string(), "expected a mean and a deviation above 0 for each of the {} channels", notes.channels.size());
  return notes;
}

ForecastErrors measure(Context& ctx, const Model& model, const SeriesWindows& windows, const RowRange& part, const SeriesNotes& notes) {
  const std::vector<double>& quantiles = quantiles_of(model);
  ForecastErrors errors(notes.channels, notes.targets, notes.scaler, quantiles);
  const auto predicted = [&](std::int64_t n, const std::vector<float>& past) {
    return predictions(ctx, model, {n, windows.sizes().context, windows.channels()}, past, quantiles);
  };
  Communicator& processes = ctx.communicator();
  if (processes.alone()) {
    for_windows(windows, part, [&](std::int64_t n, const std::vector<float>& past, const std::vector<float>& future) {
      errors.add(predicted(n, past), future);
    });
    return errors;
  }
  std::vector<std::vector<float>> mine, futures;
  for_windows(windows, part, [&](std::int64_t n, const std::vector<float>& past, const std::vector<float>& future) {
    const bool here = std::ssize(futures) % processes.size() == processes.rank();
    mine.push_back(here ? predicted(n, past) : std::vector<float>());
    futures.push_back(future);
  });
  share_out<float>(
      ctx, std::ssize(futures), [&](std::int64_t i) { return mine[static_cast<std::size_t>(i)]; },
      [&](std::int64_t i, const std::vector<float>& values) { errors.add(values, futures[static_cast<std::size_t>(i)]); });
  return errors;
}

ForecastErrors measure_last_value(const SeriesWindows& windows, const RowRange& part, const SeriesNotes& notes) {
  ForecastErrors errors(notes.channels, notes.targets, notes.scaler);
  const auto [context, horizon] = windows.sizes();
  const std::int64_t channels = windows.channels();
  for_windows(windows, part, [&](std::int64_t n, const std::vector<float>& past, const std::vector<float>& future) {
    std::vector<float> repeated;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t step = 0; step < horizon; ++step) {
        const auto last = past.begin() + ((i + 1) * context - 1) * channels;
        repeated.insert(repeated.end(), last, last + channels);
      }
    errors.add(repeated, future);
  });
  return errors;
}

std::string why_not_forecaster(const Model& model) {
  const auto* series = dynamic_cast<const PatchTSTModel*>(&model);
  if (series == nullptr) return "does not forecast: expected a PatchTST model with a prediction head";
  return series->series().head == SeriesHead::prediction ? "" : "has no prediction head: it must be a PatchTST model for prediction";
}

Forecaster Forecaster::load(Context& ctx, const fs::path& folder, const fs::path& adapter) {
  const json config = model_folder(folder, adapter).config();
  if (const std::string why_not = why_not_forecaster(*make_model(config)); !why_not.empty())
    fail(folder.string(), "a model of type \"{}\" {}", model_type_of(config), why_not);
  return open(load_model(ctx, folder, {.adapter = adapter}), folder, adapter);
}

Forecaster Forecaster::open(const std::shared_ptr<const Model>& model, const fs::path& folder, const fs::path& adapter) {
  Forecaster out;
  out.folder_ = folder.string();
  if (const std::string why_not = why_not_forecaster(*model); !why_not.empty())
    fail(out.folder_, "a model of type \"{}\" {}", model_type_of(model->config()), why_not);
  out.model_ = std::dynamic_pointer_cast<const PatchTSTModel>(model);
  const fs::path notes = !adapter.empty() && fs::exists(adapter / notes_file) ? adapter : folder;  // of the data it was trained on last
  if (!fs::exists(notes / notes_file)) return out;
  out.notes_ = SeriesNotes::load(notes);
  if (std::ssize(out.notes_->channels) != out.model_->series().channels)
    fail(out.folder_, "{} has {} channels, but the model {}", notes_file, out.notes_->channels.size(), out.model_->series().channels);
  return out;
}

SeriesNotes Forecaster::notes_of(const SeriesTable& table) const {
  const std::int64_t channels = model_->series().channels;
  if (notes_ ? table.channels != notes_->channels : std::ssize(table.channels) != channels)
    fail(table.name, "has the channels {}, but the model has {}{}", fmt::join(table.channels, ", "), channels,
         notes_ ? fmt::format(": {}", fmt::join(notes_->channels, ", ")) : "; name them (--channels)");
  return notes_ ? *notes_ : SeriesNotes{table.channels, all_of(channels), Scaler::none(channels), "", ""};
}

SeriesTable Forecaster::read(const std::string& path, TableOptions options) const {
  if (notes_ && options.channels.empty()) options.channels = notes_->channels;
  if (notes_) options.usual_date_column = notes_->date_column;
  SeriesTable table = read_csv(path, options);
  static_cast<void>(notes_of(table));
  return table;
}

std::vector<std::string> forecast_columns(const std::vector<std::string>& channels, const std::vector<double>& quantiles) {
  std::vector<std::string> out;
  for (const std::string& channel : channels) {
    out.push_back(channel);
    for (const double q : quantiles)
      if (q != 0.5) out.push_back(fmt::format("{}_{}", channel, quantile_name(q)));
  }
  std::set<std::string> seen;
  for (const std::string& name : out)
    if (!seen.insert(name).second)
      fail("quantiles", "a column of the forecast would be called '{}', as a channel is: give that channel another name", name);
  return out;
}

SeriesTable SeriesForecast::table() const {
  if (quantiles.empty()) return point;
  SeriesTable out = point;
  out.channels = forecast_columns(point.channels, quantiles);
  out.values.clear();
  for (std::int64_t row = 0; row < point.rows(); ++row)
    for (std::int64_t c = 0; c < std::ssize(point.channels); ++c) {
      out.values.push_back(point.at(row, c));
      for (std::int64_t q = 0; q < std::ssize(quantiles); ++q)
        if (quantiles[static_cast<std::size_t>(q)] != 0.5) out.values.push_back(at(row, c, q));
    }
  return out;
}

SeriesForecast Forecaster::forecast(Context& ctx, const SeriesTable& history, std::int64_t steps) const {
  const SeriesNotes notes = notes_of(history);
  const std::int64_t channels = std::ssize(history.channels), context = this->context(), rows = history.rows();
  if (steps == 0) steps = horizon();
  if (steps < 1 || steps > most_steps) fail("forecast", "{} steps: expected 1 to {}", steps, most_steps);
  if (rows < context) fail(history.name, "has {} rows, but the model looks back on {}", rows, context);
  std::vector<float> past;
  for (std::int64_t row = rows - context; row < rows; ++row)
    for (std::int64_t c = 0; c < channels; ++c) past.push_back(scaled_value(history, row, c, notes.scaler));
  const std::int64_t each = std::max<std::int64_t>(std::ssize(quantiles()), 1), point = quantiles().empty() ? 0 : model_->series().median();
  std::vector<float> next;
  while (std::ssize(next) < steps * channels * each) {
    const std::vector<float> predicted = predictions(ctx, *model_, {1, context, channels}, past, quantiles());
    expect_finite("forecast", predicted);
    next.insert(next.end(), predicted.begin(), predicted.end());
    for (std::int64_t i = point; i < std::ssize(predicted); i += each) past.push_back(predicted[static_cast<std::size_t>(i)]);
    past.erase(past.begin(), past.end() - context * channels);
  }
  SeriesForecast out{.point = {.name = "forecast", .date_column = history.date_column, .format = history.format}, .quantiles = quantiles()};
  for (const std::int64_t target : notes.targets) out.point.channels.push_back(history.channels[static_cast<std::size_t>(target)]);
  const DateStep step = history.step();
  for (std::int64_t row = 0; row < steps; ++row) {
    if (!history.dates.empty()) out.point.dates.push_back(advance(history.dates.back(), step, row + 1));
    for (const std::int64_t target : notes.targets) {
      const auto value = [&](std::int64_t i) {
        return notes.scaler.original(static_cast<double>(next[static_cast<std::size_t>((row * channels + target) * each + i)]), target);
      };
      out.point.values.push_back(value(point));
      for (std::int64_t q = 0; q < std::ssize(out.quantiles); ++q) out.values.push_back(value(q));
    }
  }
  return out;
}

ForecastErrors Forecaster::evaluate(Context& ctx, const SeriesTable& table, const RowRange& rows) const {
  const SeriesNotes notes = notes_of(table);
  const WindowSizes sizes{context(), horizon()};
  // The part alone matters here: it may be the whole table.
  const SeriesWindows windows(table, notes.scaler, {.train = {0, table.rows()}, .validation = {}, .test = {}}, sizes);
  if (windows.count(rows) == 0)
    fail(table.name,
         "the part has {} rows, {} to {}, and no window: a window takes a context of {} rows, which may reach back before the part, and a "
         "horizon of {} rows in it; give the part more rows (--split), or choose another",
         rows.size(), rows.begin + 1, rows.end, sizes.context, sizes.horizon);
  return measure(ctx, *model_, windows, rows, notes);
}

}  // namespace transformer
