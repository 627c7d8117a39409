#include "cli/evaluate_labels.h"

#include <CLI/CLI.hpp>

#include "transformer/train/classify.h"

namespace transformer::cli {

void evaluate_labels(const std::string& model, const EvaluateLabels& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  Context ctx(compute.context());
  const Evaluation result = evaluate_classifier(ctx, model, config.data, config.columns, config.max_length);
  if (const std::string summary = result.report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
  fmt::print("{}: {}", config.data, result.matrix.table("texts"));
}

}  // namespace transformer::cli
