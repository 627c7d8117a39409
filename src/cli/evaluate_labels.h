#pragma once
// transformer evaluate MODEL --data FILE: how many texts a classifier gets right, and which classes it takes for which.

#include <string>

#include "cli/compute.h"
#include "transformer/text/labelled.h"

namespace transformer::cli {

struct EvaluateLabels {
  std::string data = {};
  LabelledColumns columns = {};
  std::int64_t max_length = 0;

  bool asked() const { return !data.empty(); }
  static void visit(auto& self, auto&& field) {
    field("data", self.data, "with a classifier of texts: texts with their classes, TSV or JSON lines (.jsonl); .gz too");
    LabelledColumns::visit(self.columns, field);
    field("max_length", self.max_length, "with --data: tokens of a text that are read, as max_length in training (0: as many as it takes)");
  }
};

void evaluate_labels(const std::string& model, const std::string& adapter, const EvaluateLabels& config, const ComputeConfig& compute);

}  // namespace transformer::cli
