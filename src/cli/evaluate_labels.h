#pragma once
// transformer evaluate MODEL --data FILE: how good a model is that tells what texts are, by classes, labels or numbers, or what their words
// are.

#include <string>

#include "cli/compute.h"
#include "transformer/text/labelled.h"
#include "transformer/text/tagged.h"

namespace transformer::cli {

struct EvaluateLabels {
  std::string data = {};
  LabelledColumns columns = {};
  TaggedColumns tagged = {};
  std::int64_t max_length = 0;

  bool asked() const { return !data.empty(); }
  static void visit(auto& self, auto&& field) {
    field(
        "data", self.data,
        "with a classifier of texts: texts with their labels, TSV or JSON lines (.jsonl); with a tagger: words with their tags (CoNLL), or "
        "JSON lines; .gz too");
    LabelledColumns::visit(self.columns, field);
    TaggedColumns::visit(self.tagged, field);
    field("max_length", self.max_length, "with --data: tokens of a text that are read, as max_length in training (0: as many as it takes)");
  }
};

void evaluate_labels(const std::string& model, const std::string& adapter, const EvaluateLabels& config, const ComputeConfig& compute);

}  // namespace transformer::cli
