#pragma once
// The whole path on one page: a corpus out of a grammar, a subword model, a Transformer trained to translate English into
// Korean, its score on sentences it has never seen, and a picture of where it looks. `transformer demo` runs it.

#include <atomic>
#include <cstdint>
#include <string>

#include "transformer/core/context.h"

namespace transformer {

struct DemoOptions {
  std::string out = "demo";
  std::int64_t sentences = 100000;
  std::int64_t updates = 1000;

  static void visit(auto& self, auto&& field) {
    field("out", self.out, "folder for the model and the picture; a demonstration that was stopped there goes on");
    field("sentences", self.sentences, "sentences of the corpus, about one in twenty held out for testing");
    field("updates", self.updates, "updates of the training");
  }
};

struct DemoResult {
  bool interrupted = false;  // and then the rest is not known
  double exact_match = 0.0;  // per cent of the held-out sentences translated without any difference
  double bleu = 0.0;
  std::int64_t tested = 0;   // held-out sentences
  std::string picture = {};  // where the SVG file is
};

// Tells what it does on standard error, and the results on standard output.
DemoResult run_demo(Context& ctx, const DemoOptions& options, const std::atomic<bool>* stop = nullptr);

}  // namespace transformer
