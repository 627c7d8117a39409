#include "cli/evaluate_series.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "transformer/predict/forecaster.h"

namespace transformer::cli {

void evaluate_series(const std::string& model, const std::string& adapter, const EvaluateSeries& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  const bool whole = config.split.split.empty() && config.split.valid_from.empty() && config.split.test_from.empty();
  if (whole && config.part) throw CLI::ValidationError("--part: there are no parts without a split (--split, or --valid-from)");
  Context ctx(compute.context());
  const Forecaster forecaster = Forecaster::load(ctx, model, adapter);
  const SeriesTable table = forecaster.read(config.csv, config.table);
  const Parts parts = whole ? Parts{.train = {0, table.rows()}, .validation = {}, .test = {0, table.rows()}}
                            : split_rows(table, config.split);
  const SeriesPart part = config.part.value_or(SeriesPart::test);
  const RowRange& rows = part == SeriesPart::train ? parts.train : part == SeriesPart::validation ? parts.validation : parts.test;
  if (rows.size() == 0) fail(table.name, "the split leaves no rows for this part");
  fmt::print("{}", describe(forecaster.evaluate(ctx, table, rows), table.name));
}

}  // namespace transformer::cli
