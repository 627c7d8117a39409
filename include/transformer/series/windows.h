#pragma once
// From a table to what a model learns: parts by time, the scale of the channels, windows of context and horizon, errors.
//
//   const Parts parts = split_rows(table, {.split = "0.7,0.1,0.2"});
//   const Scaler scaler = Scaler::fit(table, parts.train);                       // of the training rows alone
//   const SeriesWindows windows(table, scaler, parts, {.context = 336, .horizon = 96});
//   windows.count(windows.parts().test);                                          // a window begins at every row

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transformer/series/table.h"

namespace transformer {

struct SplitConfig {
  std::string split = {};
  std::string valid_from = {}, test_from = {};

  static void visit(auto& self, auto&& field) {
    field("split", self.split,
          "shares of the rows for training, validation and test, in time (0.7,0.1,0.2), or etth or ettm: 12, 4 and 4 months of 30 days");
    field("valid_from", self.valid_from, "instead: date at which validation begins");
    field("test_from", self.test_from, "date at which the test begins (empty: there is no test)");
  }
};

// Rows begin … end - 1.
struct RowRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};
// What is predicted lies in the part; what it is predicted from may reach back into the part before.
struct Parts {
  RowRange train, validation, test;
};
Parts split_rows(const SeriesTable& table, const SplitConfig& config);

// Channels to mean 0 and deviation 1.
struct Scaler {
  std::vector<double> mean, deviation;  // one per channel

  // Of these rows; the deviation of a channel that is constant there is 1.
  static Scaler fit(const SeriesTable& table, const RowRange& rows);
  static Scaler none(std::int64_t channels);
  float scaled(double value, std::int64_t channel) const;
  double original(double value, std::int64_t channel) const;
};

// A value of a table; Error when it is too large for a float.
float scaled_value(const SeriesTable& table, std::int64_t row, std::int64_t channel, const Scaler& scaler);

struct WindowSizes {
  std::int64_t context = 0, horizon = 0;
};

// Windows of a scaled table. Window i of a part is the i-th of those whose horizon lies in it.
class SeriesWindows {
 public:
  SeriesWindows(const SeriesTable& table, const Scaler& scaler, const Parts& parts, const WindowSizes& sizes);

  const Parts& parts() const { return parts_; }
  const WindowSizes& sizes() const { return sizes_; }
  std::int64_t channels() const { return channels_; }
  std::int64_t rows() const { return channels_ == 0 ? 0 : std::ssize(values_) / channels_; }
  std::int64_t count(const RowRange& part) const;
  // Of the given windows of a part, one after the other: [windows, context, channels] and [windows, horizon, channels].
  void take(const RowRange& part, std::span<const std::int64_t> windows, std::vector<float>& past, std::vector<float>& future) const;
  std::uint64_t fingerprint() const;  // of the values

 private:
  std::int64_t first_row(const RowRange& part) const;  // of the part's first window

  Parts parts_;
  WindowSizes sizes_;
  std::int64_t channels_ = 0;
  std::vector<float> values_;  // [rows, channels]
};
// Error that says how many rows there are and how many a window needs, when a part that is not empty has no window. `instead`: what
// helps beside a longer series.
void check_windows(const SeriesTable& table, const Parts& parts, const WindowSizes& sizes, const std::string& instead = {});

// Mean errors, summed over predictions: squared and absolute ones of the point forecast, which is the median where there are quantiles.
class ForecastErrors {
 public:
  // quantiles: increasing, 0.5 among them; none: a prediction is one value.
  ForecastErrors(std::vector<std::string> channels, std::vector<std::int64_t> targets, Scaler scaler, std::vector<double> quantiles = {});

  // [n, channels], or [n, channels, quantiles], increasing, and [n, channels], in scaled units.
  void add(std::span<const float> predicted, std::span<const float> actual);

  struct Means {
    double mse = 0.0, mae = 0.0;
    double pinball = 0.0;   // with e = actual - predicted: max(q·e, (q - 1)·e), over all quantiles q; 0 without any
    double coverage = 0.0;  // share of the values from the lowest quantile to the highest
  };
  Means scaled() const;                      // over the targets
  Means original() const;                    // in the units of the table
  Means scaled(std::int64_t channel) const;  // any channel
  Means original(std::int64_t channel) const;
  Means all_scaled() const;  // over all channels
  const std::vector<double>& quantiles() const { return quantiles_; }
  std::int64_t values() const { return count_; }  // of a channel
  const std::vector<std::string>& channels() const { return channels_; }
  const std::vector<std::int64_t>& targets() const { return targets_; }
  // {"scaled": {"mse", "mae"}, "original": {…, "channels": {"OT": {"mse", "mae"}}}, …}; with quantiles also their list, and in each
  // pair "pinball" and "coverage"
  nlohmann::json json() const;

 private:
  Means mean(const std::vector<std::int64_t>& of, bool in_original) const;

  std::vector<std::string> channels_;
  std::vector<std::int64_t> targets_;
  Scaler scaler_;
  std::vector<double> quantiles_;
  std::vector<double> squares_, absolutes_, pinballs_, covered_;  // sums of each channel
  std::int64_t count_ = 0;
};

// "q10" of 0.1, "q2.5" of 0.025: what is behind the channel's name in the column of this quantile.
std::string quantile_name(double quantile);

// Lines for a reader: `what`, the errors in scaled and in original units, and the latter of each target.
std::string describe(const ForecastErrors& errors, std::string_view what);

}  // namespace transformer
