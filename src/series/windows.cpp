#include "transformer/series/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/shared/hash.h"
#include "io/shared/columns.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

// "0.7,0.1,0.2"
std::vector<double> shares_of(const std::string& text) {
  const auto refuse = [&] {
    wrong_setting("split", "split", "is '{}': expected three shares that sum to 1, such as 0.7,0.1,0.2, or etth, or ettm", text);
  };
  std::vector<double> shares;
  for (const char *at = text.data(), *end = at + text.size();;) {
    double share = 0.0;
    const auto [next, error] = std::from_chars(at, end, share);
    if (error != std::errc() || !(share >= 0.0 && share <= 1.0)) refuse();
    shares.push_back(share);
    if (next == end) break;
    if (*next != ',') refuse();
    at = next + 1;
  }
  if (shares.size() != 3 || std::abs(shares[0] + shares[1] + shares[2] - 1.0) > 1e-6 || shares[0] <= 0.0) refuse();
  return shares;
}

std::int64_t share_of(std::int64_t rows, double share) { return static_cast<std::int64_t>(static_cast<double>(rows) * share + 1e-9); }

Parts parts_at(std::int64_t validation, std::int64_t test, std::int64_t end) {
  return {.train = {0, validation}, .validation = {validation, test}, .test = {test, end}};
}

// The convention of the ETT sets: months of 30 days.
Parts ett_parts(const SeriesTable& table, std::int64_t rows_an_hour) {
  const std::int64_t month = 30 * 24 * rows_an_hour;
  if (table.rows() < 20 * month)
    fail(table.name, "has {} rows: this split takes {}, 20 months of 30 days with {} row{} an hour", table.rows(), 20 * month, rows_an_hour,
         rows_an_hour == 1 ? "" : "s");
  return parts_at(12 * month, 16 * month, 20 * month);
}

// The first row that is not before this date.
std::int64_t row_of(const SeriesTable& table, const std::string& text, const char* setting) {
  DateFormat format;
  auto date = table.format.pattern.empty() ? std::nullopt : parse_date(text, table.format.pattern, format);
  if (!date) date = parse_date(text, format);
  if (date && format.integer && table.format.compact) date = compact_date(*date), format = table.format;
  const bool other_zone = format.time_parts > 0 && table.format.time_parts > 0 && !same_zone(format, table.format);
  if (!date || format.integer != table.format.integer || other_zone)
    wrong_setting("split", setting, "is '{}': expected a date as in {}, which begins with {}", text, table.name, table.date(0));
  if (*date > table.dates.back())
    wrong_setting("split", setting, "is {}: expected a date that {} reaches, which ends with {}", text, table.name,
                  table.date(table.rows() - 1));
  return std::lower_bound(table.dates.begin(), table.dates.end(), *date) - table.dates.begin();
}

}  // namespace

Parts split_rows(const SeriesTable& table, const SplitConfig& config) {
  const std::int64_t rows = table.rows();
  if (config.valid_from.empty() && config.test_from.empty()) {
    if (config.split == "etth" || config.split == "ettm") return ett_parts(table, config.split == "etth" ? 1 : 4);
    const std::vector<double> shares = shares_of(config.split.empty() ? "0.7,0.1,0.2" : config.split);
    const std::int64_t train = share_of(rows, shares[0]), test = share_of(rows, shares[2]);
    // What rounding leaves over is validation, or training where there is none.
    return shares[1] > 0.0 ? parts_at(train, rows - test, rows) : parts_at(rows - test, rows - test, rows);
  }
  if (!config.split.empty()) wrong_setting("split", "", "the split is given twice: as `split`, '{}', and by dates", config.split);
  if (config.valid_from.empty()) wrong_setting("split", "test_from", "is given without valid_from, the date at which training ends");
  if (table.dates.empty())
    wrong_setting("split", "valid_from", "is given, but {} has no dates: give shares, such as `split` 0.7,0.1,0.2", table.name);
  const std::int64_t validation = row_of(table, config.valid_from, "valid_from");
  const std::int64_t test = config.test_from.empty() ? rows : row_of(table, config.test_from, "test_from");
  if (test < validation) wrong_setting("split", "test_from", "is {}, before valid_from, {}", config.test_from, config.valid_from);
  if (validation == 0)
    wrong_setting("split", "valid_from", "is {} and leaves nothing to train on: {} begins with {}", config.valid_from, table.name,
                  table.date(0));
  return parts_at(validation, test, rows);
}

Scaler Scaler::fit(const SeriesTable& table, const RowRange& rows) {
  Scaler out;
  const auto n = static_cast<double>(rows.size());
  for (std::int64_t c = 0; c < std::ssize(table.channels); ++c) {
    double sum = 0.0, squares = 0.0, furthest = 0.0;  // from the first
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      sum += table.at(row, c);
      furthest = std::max(furthest, std::abs(table.at(row, c) - table.at(rows.begin, c)));
    }
    const double mean = sum / n;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) squares += (table.at(row, c) - mean) * (table.at(row, c) - mean);
    const double deviation = std::sqrt(squares / n);
    if (!std::isfinite(mean) || !std::isfinite(deviation))
      fail(table.name, "column '{}' has values too large to compute with", table.channels[static_cast<std::size_t>(c)]);
    out.mean.push_back(mean);
    // What rounding makes is not a scale: neither of the values nor of their mean, which may be off by more than they differ.
    const bool constant = furthest <= 10.0 * std::numeric_limits<double>::epsilon() * std::abs(mean);
    out.deviation.push_back(constant ? 1.0 : deviation);
  }
  return out;
}

Scaler Scaler::none(std::int64_t channels) {
  return {std::vector<double>(static_cast<std::size_t>(channels), 0.0), std::vector<double>(static_cast<std::size_t>(channels), 1.0)};
}

float Scaler::scaled(double value, std::int64_t channel) const {
  const auto c = static_cast<std::size_t>(channel);
  return static_cast<float>((value - mean[c]) / deviation[c]);
}
double Scaler::original(double value, std::int64_t channel) const {
  const auto c = static_cast<std::size_t>(channel);
  return value * deviation[c] + mean[c];
}

float scaled_value(const SeriesTable& table, std::int64_t row, std::int64_t channel, const Scaler& scaler) {
  const float value = scaler.scaled(table.at(row, channel), channel);
  if (!std::isfinite(value))
    fail(table.name, "row {}, column '{}': {} is too far from the channel's mean {} to compute with", row + 1,
         table.channels[static_cast<std::size_t>(channel)], table.at(row, channel), scaler.mean[static_cast<std::size_t>(channel)]);
  return value;
}

SeriesWindows::SeriesWindows(const SeriesTable& table, const Scaler& scaler, const Parts& parts, const WindowSizes& sizes)
    : parts_(parts), sizes_(sizes), channels_(std::ssize(table.channels)) {
  check_windows(table, parts, sizes);
  values_.reserve(table.values.size());
  for (std::int64_t row = 0; row < table.rows(); ++row)
    for (std::int64_t c = 0; c < channels_; ++c) values_.push_back(scaled_value(table, row, c, scaler));
}

std::int64_t SeriesWindows::first_row(const RowRange& part) const { return std::max(std::int64_t{0}, part.begin - sizes_.context); }

std::int64_t SeriesWindows::count(const RowRange& part) const {
  return std::max(std::int64_t{0}, part.end - sizes_.context - sizes_.horizon - first_row(part) + 1);
}

void SeriesWindows::take(const RowRange& part, std::span<const std::int64_t> windows, std::vector<float>& past,
                         std::vector<float>& future) const {
  past.clear(), future.clear();
  past.reserve(windows.size() * static_cast<std::size_t>(sizes_.context * channels_));
  future.reserve(windows.size() * static_cast<std::size_t>(sizes_.horizon * channels_));
  for (const std::int64_t window : windows) {
    const auto begin = values_.begin() + (first_row(part) + window) * channels_, middle = begin + sizes_.context * channels_;
    past.insert(past.end(), begin, middle);
    future.insert(future.end(), middle, middle + sizes_.horizon * channels_);
  }
}

std::uint64_t SeriesWindows::fingerprint() const {
  Hash hash;
  hash.word(static_cast<std::uint64_t>(channels_));
  hash.bytes(values_.data(), values_.size() * sizeof(float));
  return hash.finish();
}

void check_windows(const SeriesTable& table, const Parts& parts, const WindowSizes& sizes, const std::string& instead) {
  const auto [context, horizon] = sizes;
  if (context < 1 || horizon < 1) wrong_setting("windows", "context", "is {} and `horizon` {}: expected 1 or more", context, horizon);
  // Not context + horizon, which may be beyond what an integer holds.
  if (context > table.rows() || horizon > table.rows() - context || horizon > parts.train.size() - context)
    fail(table.name, "has {} rows{}, but a window takes {}: a context of {} and a horizon of {}; give a longer series, or {}", table.rows(),
         parts.train.size() == table.rows() ? "" : fmt::format(", {} of them for training", parts.train.size()),
         static_cast<double>(context) + static_cast<double>(horizon), context, horizon,
         instead.empty() ? "a model with smaller ones" : instead);
  for (const auto& [name, part] : {std::pair{"validation", parts.validation}, std::pair{"test", parts.test}})
    if (part.size() > 0 && part.size() < horizon)
      fail(table.name, "has {} rows for {}, but a window predicts {}: give it more rows (--split), or none{}", part.size(), name, horizon,
           instead.empty() ? "" : ", or " + instead);
}

ForecastErrors::ForecastErrors(std::vector<std::string> channels, std::vector<std::int64_t> targets, Scaler scaler,
                               std::vector<double> quantiles)
    : channels_(std::move(channels)), targets_(std::move(targets)), scaler_(std::move(scaler)), quantiles_(std::move(quantiles)),
      squares_(channels_.size()), absolutes_(channels_.size()), pinballs_(channels_.size()), covered_(channels_.size()) {}

void ForecastErrors::add(std::span<const float> predicted, std::span<const float> actual) {
  const std::size_t n = channels_.size(), each = std::max<std::size_t>(quantiles_.size(), 1);
  const auto median = quantiles_.empty()
      ? 0
      : static_cast<std::size_t>(std::find(quantiles_.begin(), quantiles_.end(), 0.5) - quantiles_.begin());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::span<const float> values = predicted.subspan(i * each, each);
    const double error = static_cast<double>(values[median]) - static_cast<double>(actual[i]);
    squares_[i % n] += error * error;
    absolutes_[i % n] += std::abs(error);
    for (std::size_t q = 0; q < quantiles_.size(); ++q) {
      const double e = static_cast<double>(actual[i]) - static_cast<double>(values[q]);
      pinballs_[i % n] += std::max(quantiles_[q] * e, (quantiles_[q] - 1.0) * e);
    }
    if (!quantiles_.empty() && values.front() <= actual[i] && actual[i] <= values.back()) covered_[i % n] += 1.0;
  }
  count_ += static_cast<std::int64_t>(actual.size() / n);
}

ForecastErrors::Means ForecastErrors::mean(const std::vector<std::int64_t>& of, bool in_original) const {
  Means out;
  if (count_ == 0) fail("forecast errors", "there are no forecasts to take the mean of");
  for (const std::int64_t channel : of) {
    const auto c = static_cast<std::size_t>(channel);
    const double unit = in_original ? scaler_.deviation[c] : 1.0;
    out.mse += squares_[c] * unit * unit;
    out.mae += absolutes_[c] * unit;
    out.pinball += pinballs_[c] * unit;
    out.coverage += covered_[c];
  }
  const double n = static_cast<double>(count_) * static_cast<double>(of.size());
  return {.mse = out.mse / n,
          .mae = out.mae / n,
          .pinball = out.pinball / (n * static_cast<double>(std::max<std::size_t>(quantiles_.size(), 1))),
          .coverage = out.coverage / n};
}

ForecastErrors::Means ForecastErrors::scaled() const { return mean(targets_, false); }
ForecastErrors::Means ForecastErrors::original() const { return mean(targets_, true); }
ForecastErrors::Means ForecastErrors::scaled(std::int64_t channel) const { return mean({channel}, false); }
ForecastErrors::Means ForecastErrors::original(std::int64_t channel) const { return mean({channel}, true); }
ForecastErrors::Means ForecastErrors::all_scaled() const {
  std::vector<std::int64_t> all(channels_.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return mean(all, false);
}

nlohmann::json ForecastErrors::json() const {
  const auto means = [&](const Means& m) {
    nlohmann::json out{{"mse", m.mse}, {"mae", m.mae}};
    if (!quantiles_.empty()) out["pinball"] = m.pinball, out["coverage"] = m.coverage;
    return out;
  };
  nlohmann::json of_channels = nlohmann::json::object();
  for (const std::int64_t c : targets_)
    of_channels[channels_[static_cast<std::size_t>(c)]] = {{"scaled", means(scaled(c))}, {"original", means(original(c))}};
  nlohmann::json out{{"scaled", means(scaled())}, {"original", means(original())}, {"channels", of_channels}};
  if (!quantiles_.empty()) out["quantiles"] = quantiles_;
  return out;
}

std::string quantile_name(double quantile) { return fmt::format("q{:.10g}", 100.0 * quantile); }

std::string describe(const ForecastErrors& errors, std::string_view what) {
  const ForecastErrors::Means scaled = errors.scaled(), original = errors.original();
  const std::vector<double>& quantiles = errors.quantiles();
  std::string out = fmt::format("{}: MSE {:.4f}, MAE {:.4f} (scaled); MSE {:.5g}, MAE {:.5g} (original units)\n", what, scaled.mse,
                                scaled.mae, original.mse, original.mae);
  if (!quantiles.empty())
    out += fmt::format(
        "{} quantiles: pinball loss {:.4f} (scaled), {:.5g} (original units); from {:.10g} to {:.10g} %: {:.2f} % of the values\n",
        quantiles.size(), scaled.pinball, original.pinball, 100.0 * quantiles.front(), 100.0 * quantiles.back(), 100.0 * scaled.coverage);
  int widest = 0;
  for (const std::int64_t c : errors.targets()) widest = std::max(widest, columns_of(errors.channels()[static_cast<std::size_t>(c)]));
  for (const std::int64_t c : errors.targets()) {
    const ForecastErrors::Means s = errors.scaled(c), o = errors.original(c);
    out += fmt::format("  {} MSE {:.4f}, MAE {:.4f} (scaled); MSE {:.5g}, MAE {:.5g}",
                       padded(errors.channels()[static_cast<std::size_t>(c)] + ":", widest + 1), s.mse, s.mae, o.mse, o.mae);
    if (!quantiles.empty()) out += fmt::format("; pinball {:.4f} (scaled), covers {:.2f} %", s.pinball, 100.0 * s.coverage);
    out += '\n';
  }
  return out;
}

}  // namespace transformer
