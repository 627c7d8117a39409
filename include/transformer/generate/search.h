#pragma once
// Greedy and beam search for translation: the best target sentences under a model, whole sentences that end with the end
// token. (generate.h goes on from prompts, as Hugging Face's generate does.)
//
//   EncoderDecoderView view(model, tokenizer->eos(), special_tokens);
//   auto best = search(ctx, view, sources, {.beam = 5});
//   use(best[0][0].ids);

#include "transformer/generate/decoder.h"
#include "transformer/generate/generation_config.h"

namespace transformer {

struct SearchOptions {
  std::int64_t beam = 5;
  double length_penalty = 1.0;
  std::int64_t n_best = 1;
  EarlyStopping early_stopping = EarlyStopping::no;
  double max_length_a = 2.0;
  std::int64_t max_length_b = 10;
  std::int64_t min_length = 0;
  bool allow_unk = false;
  std::int64_t batch_tokens = 2048;
  bool alignment = false;
  std::int64_t alignment_layer = -1;

  static void visit(auto& self, auto&& field) {
    field("beam", self.beam, "hypotheses kept for each sentence (1: greedy)");
    field("length_penalty", self.length_penalty, "score = sum of log-probabilities / length ^ penalty; more than 1 favours long sentences");
    field("n_best", self.n_best, "translations given for each sentence, at most beam");
    field("early_stopping", self.early_stopping, "stop a sentence when beam hypotheses are finished, rather than when none can be better");
    field("max_length_a", self.max_length_a, "a target has at most a times the tokens of its source");
    field("max_length_b", self.max_length_b, "and b more");
    field("min_length", self.min_length, "tokens that a target has at least");
    field("allow_unk", self.allow_unk, "let the unknown token be generated");
    field("batch_tokens", self.batch_tokens, "source tokens that are translated together");
    field(
        "alignment", self.alignment,
        "say which source token each target token attends to most: behind the translation, the tokens of both and pairs of their numbers");
    field("alignment_layer", self.alignment_layer, "take the alignment from this decoder layer, from 0 (-1: the last)");
  }
};

struct Hypothesis {
  std::vector<std::int32_t> ids = {};              // without start and end token
  float score = 0.0F;                              // Σ log p / length ^ length_penalty, the end token counted
  std::vector<float> token_scores = {};            // log p of each token and of the end
  std::vector<std::vector<float>> alignment = {};  // on request: [tokens and end, source tokens and end], rows sum to 1
};

// The n_best hypotheses of each source, best first, in the order of the sources. Every hypothesis ends with the end token:
// at its longest it is forced. Of equal scores the one with the lower token id comes first. Sources are sorted by length and
// computed in batches; that does not change what is found.
std::vector<std::vector<Hypothesis>> search(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> sources,
                                            const SearchOptions& options = {});

}  // namespace transformer
