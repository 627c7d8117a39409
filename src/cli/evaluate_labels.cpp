#include "cli/evaluate_labels.h"

#include <CLI/CLI.hpp>

#include "transformer/train/classify.h"

namespace transformer::cli {

void evaluate_labels(const std::string& model, const std::string& adapter, const EvaluateLabels& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  if (config.max_length < 0) throw CLI::ValidationError(fmt::format("--max-length is {}: expected 0 or more", config.max_length));
  Context ctx(compute.context());
  const Evaluation result = evaluate_classifier(ctx, model, config.data, config.columns, config.max_length, adapter);
  if (const std::string summary = result.report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
  fmt::print("{}: {}\nloss {:.4g}\n", config.data, result.matrix.table("texts"), result.loss);
}

}  // namespace transformer::cli
