#include "cli/evaluate_series.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "transformer/generate/forecaster.h"

namespace transformer::cli {

void evaluate_series(const std::string& model, const EvaluateSeries& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  Context ctx(compute.context());
  const Forecaster forecaster = Forecaster::load(ctx, model);
  const SeriesTable table = forecaster.read(config.csv, config.table);
  const bool whole = config.split.split.empty() && config.split.valid_from.empty() && config.split.test_from.empty();
  const Parts parts = whole ? Parts{.train = {0, table.rows()}, .validation = {}, .test = {0, table.rows()}}
                            : split_rows(table, config.split);
  const RowRange& rows = config.part == SeriesPart::train ? parts.train
      : config.part == SeriesPart::validation             ? parts.validation
                                                          : parts.test;
  if (rows.size() == 0) fail(table.name, "the split leaves no rows for this part");
  fmt::print("{}", describe(forecaster.evaluate(ctx, table, rows), table.name));
}

}  // namespace transformer::cli
