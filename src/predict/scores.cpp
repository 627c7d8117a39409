#include "transformer/predict/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/shared/columns.h"
#include "predict/share.h"
#include "text/shared/entities.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using nlohmann::json;

}  // namespace

double FoundScores::Counts::precision() const { return share(right, found); }
double FoundScores::Counts::recall() const { return share(right, there); }
double FoundScores::Counts::f1() const { return share(2 * right, found + there); }

void FoundScores::add(const std::string& kind, const Counts& counts) {
  Counts& all = kinds_[kind];
  all.right += counts.right, all.found += counts.found, all.there += counts.there;
}

FoundScores::Counts FoundScores::total() const {
  Counts all;
  for (const auto& [kind, c] : kinds_) all.right += c.right, all.found += c.found, all.there += c.there;
  return all;
}

double FoundScores::macro_f1() const {
  double sum = 0.0;
  std::int64_t count = 0;
  for (const auto& [kind, c] : kinds_)
    if (c.found + c.there > 0) sum += c.f1(), ++count;
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

double FoundScores::accuracy() const { return share(right_, samples_); }

std::string FoundScores::rows(const std::string& kind, const std::string& what) const {
  int widest = columns_of(kind);
  for (const auto& [name, counts] : kinds_) widest = std::max(widest, columns_of(name));
  std::string out = fmt::format("{}  precision  recall      F1  {:>8}\n", padded(kind, widest), what);
  for (const auto& [name, c] : kinds_)
    out += fmt::format("{}  {:9.2f} {:7.2f} {:7.2f}  {:8}\n", padded(name, widest), 100.0 * c.precision(), 100.0 * c.recall(),
                       100.0 * c.f1(), c.there);
  return out;
}

json FoundScores::json_of(const char* kinds) const {
  const Counts all = total();
  json out = {{"samples", samples_},  {"accuracy", accuracy()}, {"precision", all.precision()}, {"recall", all.recall()},
              {"micro_f1", all.f1()}, {"macro_f1", macro_f1()}, {kinds, json::array()}};
  for (const auto& [name, c] : kinds_)
    out[kinds].push_back({{"name", name}, {"precision", c.precision()}, {"recall", c.recall()}, {"f1", c.f1()}, {"samples", c.there}});
  return out;
}

Metrics LabelScores::metrics() const { return {{"micro_f1", total().f1()}, {"macro_f1", macro_f1()}, {"accuracy", accuracy()}}; }

std::string LabelScores::table(const std::string& what) const {
  return fmt::format("{} {}, micro-F1 {:.2f} %, macro-F1 {:.2f} %, all labels right {:.2f} %\n\n", samples(), what, 100.0 * total().f1(),
                     100.0 * macro_f1(), 100.0 * accuracy()) +
      rows("label", what);
}

json LabelScores::to_json() const { return json_of("labels"); }

void EntityScores::add_text(const std::vector<std::string>& truth, const std::vector<std::string>& predicted) {
  if (truth.size() != predicted.size()) fail("scores", "{} tags and {} that were predicted", truth.size(), predicted.size());
  std::int64_t right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) right += truth[i] == predicted[i] ? 1 : 0;
  add_samples(std::ssize(truth), right);
  const std::vector<Entity> there = entities_of(truth), found = entities_of(predicted);
  for (const Entity& e : there) add(e.type, {.right = std::find(found.begin(), found.end(), e) != found.end() ? 1 : 0, .there = 1});
  for (const Entity& e : found) add(e.type, {.found = 1});
}

Metrics EntityScores::metrics() const {
  const Counts all = total();
  return {{"f1", all.f1()}, {"precision", all.precision()}, {"recall", all.recall()}, {"accuracy", accuracy()}};
}

std::string EntityScores::table(const std::string& what) const {
  const Counts all = total();
  return fmt::format("{} {}, entities: F1 {:.2f} %, precision {:.2f} %, recall {:.2f} %; tags right {:.2f} %\n\n", samples(), what,
                     100.0 * all.f1(), 100.0 * all.precision(), 100.0 * all.recall(), 100.0 * accuracy()) +
      rows("entity", "entities");
}

json EntityScores::to_json() const {
  json out = json_of("entities");
  out["f1"] = out["micro_f1"];
  return out;
}

void NumberScores::add(std::int64_t output, double truth, double predicted) {
  outputs_.at(static_cast<std::size_t>(output)).emplace_back(truth, predicted);
}

NumberScores::Figures NumberScores::figures(const std::vector<std::pair<double, double>>& values) {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  double mean_y = 0.0, mean_p = 0.0;
  for (const auto& [y, p] : values) mean_y += y / n, mean_p += p / n;
  double squares = 0.0, sizes = 0.0, yy = 0.0, pp = 0.0, yp = 0.0;
  bool equal_y = true, equal_p = true;
  for (const auto& [y, p] : values) {
    squares += (y - p) * (y - p), sizes += std::abs(y - p);
    yy += (y - mean_y) * (y - mean_y), pp += (p - mean_p) * (p - mean_p), yp += (y - mean_y) * (p - mean_p);
    equal_y = equal_y && y == values.front().first, equal_p = equal_p && p == values.front().second;
  }
  const double r2 = equal_y ? (squares == 0.0 ? 1.0 : 0.0) : 1.0 - squares / yy;
  return {.mse = squares / n, .mae = sizes / n, .r2 = r2, .pearson = equal_y || equal_p ? 0.0 : yp / std::sqrt(yy * pp)};
}

double NumberScores::mean(double Figures::*figure) const {
  double sum = 0.0;
  for (const auto& values : outputs_) sum += figures(values).*figure;
  return outputs_.empty() ? 0.0 : sum / static_cast<double>(outputs_.size());
}

double NumberScores::mse() const { return mean(&Figures::mse); }
double NumberScores::mae() const { return mean(&Figures::mae); }
double NumberScores::r2() const { return mean(&Figures::r2); }
double NumberScores::pearson() const { return mean(&Figures::pearson); }

Metrics NumberScores::metrics() const { return {{"r2", r2()}, {"mse", mse()}, {"mae", mae()}, {"pearson", pearson()}}; }

std::string NumberScores::table(const std::string& what) const {
  std::string out = fmt::format("{} {}, R² {:.4f}, MSE {:.4g}, MAE {:.4g}, Pearson {:.4f}\n", samples(), what, r2(), mse(), mae(),
                                pearson());
  if (names_.size() < 2) return out;
  int widest = 6;
  for (const std::string& name : names_) widest = std::max(widest, columns_of(name));
  out += fmt::format("\n{}        R²         MSE         MAE   Pearson\n", padded("number", widest));
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const Figures f = figures(outputs_[i]);
    out += fmt::format("{}  {:8.4f}  {:10.4g}  {:10.4g}  {:8.4f}\n", padded(names_[i], widest), f.r2, f.mse, f.mae, f.pearson);
  }
  return out;
}

json NumberScores::to_json() const {
  json out = {{"samples", samples()}, {"r2", r2()}, {"mse", mse()}, {"mae", mae()}, {"pearson", pearson()}, {"numbers", json::array()}};
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const Figures f = figures(outputs_[i]);
    out["numbers"].push_back({{"name", names_[i]}, {"r2", f.r2}, {"mse", f.mse}, {"mae", f.mae}, {"pearson", f.pearson}});
  }
  return out;
}

Metrics Evaluation::metrics() const {
  Metrics out{{"loss", loss}};
  const Metrics more = std::visit([](const auto& s) { return s.metrics(); }, scores);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

std::string Evaluation::table(const std::string& samples) const {
  return std::visit([&](const auto& s) { return s.table(samples); }, scores);
}

json Evaluation::to_json() const {
  json out = std::visit([](const auto& s) { return s.to_json(); }, scores);
  out["loss"] = loss;
  return out;
}

}  // namespace transformer
