#pragma once
// transformer evaluate MODEL --text: how well a language model knows a text.

#include <string>
#include <vector>

#include "cli/compute.h"
#include "transformer/text/documents.h"

namespace transformer::cli {

struct EvaluateText {
  std::vector<std::string> text = {};
  std::string bin = {};
  std::int64_t context = 0;
  Documents documents = Documents::file;
  bool document_mask = false;

  static void visit(auto& self, auto&& field) {
    field("text", self.text, "with a language model: text whose perplexity and bits per byte are measured");
    field("bin", self.bin, "instead of text: tokens of 'transformer tokenize --to-bin'");
    field("context", self.context, "with --text: tokens that the model sees at once (0: as many as it was made for, at most 1024)");
    field("documents", self.documents, "with --text: what a document is; the end-of-text token stands between two");
    field("document_mask", self.document_mask, "with --text: tokens see only those of their own document");
  }
  bool asked() const { return !text.empty() || !bin.empty(); }
};

void evaluate_text(const std::string& model, const std::string& adapter, const EvaluateText& settings, const ComputeConfig& compute);

}  // namespace transformer::cli
