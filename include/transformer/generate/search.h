#pragma once
// Greedy and beam search for translation: the best target sentences under a model, whole sentences that end with the end
// token. (generate.h goes on from prompts, as Hugging Face's generate does.)
//
//   EncoderDecoderView view(model, tokenizer->eos(), special_tokens);
//   auto best = search(ctx, view, sources, {.num_beams = 5});
//   use(best[0][0].ids);

#include "transformer/generate/decoder.h"
#include "transformer/generate/generation_config.h"

namespace transformer {

// What a search of whole sentences has beside the settings of generation.
struct SearchOptions {
  double max_length_a = 2.0;
  std::int64_t max_length_b = 10;
  bool allow_unk = false;
  std::int64_t batch_tokens = 2048;
  bool alignment = false;
  std::int64_t alignment_layer = -1;

  static void visit(auto& self, auto&& field) {
    field("max_length_a", self.max_length_a, "a target has at most a times the tokens of its source");
    field("max_length_b", self.max_length_b, "and b more");
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

// num_return_sequences hypotheses of each source, best first, in the order of the sources. Every hypothesis ends with the end token: at
// its longest it is forced. Of equal scores the one with the lower token id comes first. Sources are sorted by length and computed in
// batches; that does not change what is found. Of the configuration counts what is about the best sequences; where it says how long they
// may become, the options do not. Nothing is drawn, and the special tokens are the model's.
std::vector<std::vector<Hypothesis>> search(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> sources,
                                            const GenerationConfig& config = {.num_beams = 5}, const SearchOptions& options = {});

}  // namespace transformer
