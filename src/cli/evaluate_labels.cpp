#include "cli/evaluate_labels.h"

#include <CLI/CLI.hpp>

#include "io/shared/json.h"
#include "transformer/train/classify.h"
#include "transformer/train/tag.h"

namespace transformer::cli {

namespace {

// Does the folder's model have a label for each token?
bool labels_words(const std::string& folder) {
  const nlohmann::json config = read_json(std::filesystem::path(folder) / "config.json");
  const auto architectures = config.is_object() ? config.value("architectures", nlohmann::json()) : nlohmann::json();
  return architectures.is_array() && !architectures.empty() && architectures.front().is_string() &&
      architectures.front().get<std::string>().ends_with("ForTokenClassification");
}

}  // namespace

void evaluate_labels(const std::string& model, const std::string& adapter, const EvaluateLabels& config, const ComputeConfig& compute) {
  if (model.empty()) throw CLI::RequiredError("MODEL");
  if (config.max_length < 0) throw CLI::ValidationError(fmt::format("--max-length is {}: expected 0 or more", config.max_length));
  Context ctx(compute.context());
  const bool words = labels_words(model);
  const Evaluation result = words ? evaluate_tagger(ctx, model, config.data, config.tagged, config.max_length, adapter)
                                  : evaluate_classifier(ctx, model, config.data, config.columns, config.max_length, adapter);
  if (const std::string summary = result.report.summary(); !summary.empty()) fmt::print(stderr, "transformer: {}\n", summary);
  fmt::print("{}: {}\nloss {:.4g}\n", config.data, result.table(words ? "words" : "texts"), result.loss);
}

}  // namespace transformer::cli
