#pragma once
// transformer evaluate MODEL --csv FILE: the errors of forecasts.

#include <optional>
#include <string>

#include "cli/compute.h"
#include "transformer/series/windows.h"

namespace transformer::cli {

enum class SeriesPart : std::uint8_t { train, validation, test };
inline EnumNames<SeriesPart> names(SeriesPart) {
  return {{SeriesPart::train, "train"}, {SeriesPart::validation, "validation"}, {SeriesPart::test, "test"}};
}

struct EvaluateSeries {
  std::string csv = {};
  SplitConfig split = {};
  std::optional<SeriesPart> part = {};
  TableOptions table = {};

  static void visit(auto& self, auto&& field) {
    field("csv", self.csv, "with a MODEL that forecasts: the series; MSE and MAE of all its windows, or of a part's");
    SplitConfig::visit(self.split, field);
    field("part", self.part, "with a split: the part whose windows are forecast (none: test)");
    TableOptions::visit(self.table, field);
  }
};

void evaluate_series(const std::string& model, const std::string& adapter, const EvaluateSeries& config, const ComputeConfig& compute);

}  // namespace transformer::cli
