#include "transformer/predict/confusion.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/shared/columns.h"
#include "predict/share.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::int64_t most_shown = 20, most_written = 1000;

}  // namespace

ConfusionMatrix::ConfusionMatrix(std::vector<std::string> names)
    : names_(std::move(names)), truth_(names_.size()), predicted_(names_.size()) {}

void ConfusionMatrix::add(std::int64_t truth, std::int64_t predicted) {
  for (const std::int64_t c : {truth, predicted})
    if (c < 0 || c >= std::ssize(names_)) fail("confusion matrix", "there is no class {}: there are {}", c, names_.size());
  ++counts_[{truth, predicted}];
  ++truth_[index(truth)], ++predicted_[index(predicted)], ++total_;
}

std::int64_t ConfusionMatrix::count(std::int64_t truth, std::int64_t predicted) const {
  const auto found = counts_.find({truth, predicted});
  return found == counts_.end() ? 0 : found->second;
}

double ConfusionMatrix::accuracy() const {
  std::int64_t right = 0;
  for (std::int64_t c = 0; c < std::ssize(names_); ++c) right += count(c, c);
  return share(right, total_);
}

double ConfusionMatrix::precision(std::int64_t c) const { return share(count(c, c), predictions(c)); }
double ConfusionMatrix::recall(std::int64_t c) const { return share(count(c, c), samples(c)); }
double ConfusionMatrix::f1(std::int64_t c) const { return share(2 * count(c, c), samples(c) + predictions(c)); }

double ConfusionMatrix::macro_f1() const {
  double sum = 0.0;
  std::int64_t there = 0;
  for (std::int64_t c = 0; c < std::ssize(names_); ++c) {
    if (samples(c) + predictions(c) == 0) continue;
    sum += f1(c);
    ++there;
  }
  return there == 0 ? 0.0 : sum / static_cast<double>(there);
}

Metrics ConfusionMatrix::metrics() const { return {{"accuracy", accuracy()}, {"macro_f1", macro_f1()}}; }

std::string ConfusionMatrix::table(const std::string& what) const {
  const auto classes = std::ssize(names_);
  int widest = 5;
  for (const std::string& name : names_) widest = std::max(widest, columns_of(name));
  std::string out = fmt::format("{} {}, accuracy {:.2f} %, macro-F1 {:.2f} %\n\n", total_, what, 100.0 * accuracy(), 100.0 * macro_f1());
  out += fmt::format("{}  precision  recall      F1  {:>7}\n", padded("class", widest), what);
  for (std::int64_t c = 0; c < classes; ++c)
    out += fmt::format("{}  {:9.2f} {:7.2f} {:7.2f}  {:7}\n", padded(names_[index(c)], widest), 100.0 * precision(c), 100.0 * recall(c),
                       100.0 * f1(c), samples(c));
  if (classes > most_shown) return out;
  out += fmt::format("\n{}  what it was taken for\n{}", padded("class", widest), padded("", widest));
  for (const std::string& name : names_) out += "  " + padded(name, 6, true);
  out += "\n";
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    out += padded(names_[index(truth)], widest);
    for (std::int64_t c = 0; c < classes; ++c)
      out += "  " + padded(std::to_string(count(truth, c)), std::max(6, columns_of(names_[index(c)])), true);
    out += "\n";
  }
  return out;
}

nlohmann::json ConfusionMatrix::to_json() const {
  const auto classes = std::ssize(names_);
  nlohmann::json out = {{"samples", total_}, {"accuracy", accuracy()}, {"macro_f1", macro_f1()}, {"classes", nlohmann::json::array()}};
  for (std::int64_t c = 0; c < classes; ++c)
    out["classes"].push_back(
        {{"name", names_[index(c)]}, {"precision", precision(c)}, {"recall", recall(c)}, {"f1", f1(c)}, {"samples", samples(c)}});
  if (classes > most_written) return out;
  nlohmann::json& rows = out["confusion"] = nlohmann::json::array();  // rows: the true class
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    rows.push_back(nlohmann::json::array());
    for (std::int64_t c = 0; c < classes; ++c) rows.back().push_back(count(truth, c));
  }
  return out;
}

}  // namespace transformer
