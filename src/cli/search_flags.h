#pragma once
// The flags of a search for translations, which have short names for the settings of generation.

#include "transformer/core/setting_error.h"
#include "transformer/generate/search.h"

namespace transformer::cli {

struct SearchFlags {
  std::int64_t beam = 5;
  double length_penalty = 1.0;
  std::int64_t n_best = 1;
  EarlyStopping early_stopping = EarlyStopping::no;
  std::int64_t min_length = 0;
  SearchOptions options = {};

  static void visit(auto& self, auto&& field) {
    field("beam", self.beam, "hypotheses kept for each sentence (1: greedy)");
    field("length_penalty", self.length_penalty, "score = sum of log-probabilities / length ^ penalty; more than 1 favours long sentences");
    field("n_best", self.n_best, "translations given for each sentence, at most beam");
    field("early_stopping", self.early_stopping, "stop a sentence when beam hypotheses are finished, rather than when none can be better");
    field("min_length", self.min_length, "tokens that a target has at least");
    SearchOptions::visit(self.options, field);
  }

  GenerationConfig config() const {
    // More than these are a slip of the hand: the search would not end.
    for (const auto& [name, value, least, most] :
         {std::tuple{"beam", beam, 1, 1024}, {"n_best", n_best, 1, 1024}, {"min_length", min_length, 0, 1 << 20}})
      if (value < least || value > most) wrong_setting("search", name, "is {}: expected {} to {}", value, least, most);
    if (n_best > beam) wrong_setting("search", "n_best", "is {}, but a beam of {} gives at most that many: raise `beam`", n_best, beam);
    return {.min_new_tokens = min_length,
            .num_beams = beam,
            .num_return_sequences = n_best,
            .length_penalty = length_penalty,
            .early_stopping = early_stopping};
  }
};

}  // namespace transformer::cli
