#pragma once
// What comes next in a series: a PatchTST model, the scale of its channels, and a table.
//
//   Context ctx;
//   Forecaster forecaster = Forecaster::load(ctx, "model");
//   SeriesForecast next = forecaster.forecast(ctx, forecaster.read("prices.csv"));
//   next.point;                                                                    // the next days, with their dates
//   std::cout << write_table(next.table());                                        // beside them the quantiles, where there are any

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "transformer/models/patchtst.h"
#include "transformer/series/windows.h"

namespace transformer {

// What a model must know of the series it was trained on, beside its config.json: the file series.json.
struct SeriesNotes {
  std::vector<std::string> channels;  // in the order of the model's
  std::vector<std::int64_t> targets;  // those that are forecast
  Scaler scaler;
  std::string step;         // from row to row, in words; empty: there were no dates
  std::string date_column;  // its name; empty: there were no dates, or it had none

  void save(const std::filesystem::path& folder) const;
  static SeriesNotes load(const std::filesystem::path& folder);
};

// The model's errors on all windows of a part, nothing left out.
ForecastErrors measure(Context& ctx, const Model& model, const SeriesWindows& windows, const RowRange& part, const SeriesNotes& notes);
// Those of repeating the last value, which a forecast should beat.
ForecastErrors measure_last_value(const SeriesWindows& windows, const RowRange& part, const SeriesNotes& notes);

// What is forecast: a value for each row and channel and, where the model has quantiles, these too.
struct SeriesForecast {
  SeriesTable point = {};              // the median
  std::vector<double> quantiles = {};  // increasing; empty: there are none
  std::vector<double> values = {};     // [rows, channels, quantiles], increasing

  double at(std::int64_t row, std::int64_t channel, std::int64_t quantile) const {
    const std::int64_t place = row * std::ssize(point.channels) + channel;
    return values[static_cast<std::size_t>(place * std::ssize(quantiles) + quantile)];
  }
  // The point forecast of each channel under its name, and behind it the quantiles other than the median: a, a_q10, a_q90, b …
  SeriesTable table() const;
};
// The names of these columns. Error where one would stand there twice.
std::vector<std::string> forecast_columns(const std::vector<std::string>& channels, const std::vector<double>& quantiles);

class Forecaster {
 public:
  // A folder of a PatchTST model with a prediction head. Without series.json, as Hugging Face saves it, values go in as they are and
  // any names will do.
  static Forecaster load(Context& ctx, const std::filesystem::path& folder, const std::filesystem::path& adapter = {});
  // The same of a model that is loaded already, from this folder: others may share it.
  static Forecaster open(const std::shared_ptr<const Model>& model, const std::filesystem::path& folder,
                         const std::filesystem::path& adapter = {});

  std::int64_t context() const { return model_->series().context; }
  std::int64_t horizon() const { return model_->series().ahead; }
  const SeriesNotes* notes() const { return notes_ ? &*notes_ : nullptr; }  // null: there is no series.json

  // The columns that the model knows, by their names. Error names those that are not there. The dates are those of the column that had
  // them in training, where there is one of this name.
  SeriesTable read(const std::string& path, TableOptions options = {}) const;
  const std::vector<double>& quantiles() const { return model_->series().quantiles; }
  // The `steps` rows that follow the table's last (0: the horizon), of the target channels, in its units and with its dates. For more
  // than the horizon the point forecast is fed back; its quantiles then do not know how far it may be off by then.
  SeriesForecast forecast(Context& ctx, const SeriesTable& history, std::int64_t steps = 0) const;
  // Errors on all windows whose horizon lies in these rows. Error when there are none.
  ForecastErrors evaluate(Context& ctx, const SeriesTable& table, const RowRange& rows) const;

 private:
  SeriesNotes notes_of(const SeriesTable& table) const;

  std::shared_ptr<const PatchTSTModel> model_;
  std::optional<SeriesNotes> notes_;
  std::string folder_;
};

// "" when it is a PatchTST model that predicts, and otherwise what is wrong with this kind of model.
std::string why_not_forecaster(const Model& model);

}  // namespace transformer
