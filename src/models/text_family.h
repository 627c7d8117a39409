#pragma once
// What the families of text models have in common when they read their config.json.

#include "transformer/models/text.h"
#include "transformer/nn/feed_forward.h"

namespace transformer {

struct TextFamily {
  std::string architecture;
  std::string base;  // the prefix of the base model's tensors, "bert."; the base model alone does not have it
  TextConfig config = {};
  std::vector<NameRule> body = {}, head = {};  // names without and with that prefix
  LoadRules load = {};
  float initializer_range = 0.02F;  // standard deviation of fresh matrices and tables
  bool scaled_residuals = false;    // GPT-2: 1/√(2·layers) of it for the matrices that write into the residual stream

  bool is(std::string_view name) const { return architecture.ends_with(name); }
};

std::unique_ptr<Model> make_text(TextFamily family);

// Settings that only encoder-decoders have.
void refuse_decoder(Settings& s);

// The heads that decoders have: NameForCausalLM (GPT-2: LMHeadModel), …ForSequenceClassification, …ForTokenClassification and the
// base model. `token_head`: what the last but one calls its layer.
void read_decoder_head(Settings& s, TextFamily& f, bool tied_by_default, std::string_view token_head);

// problem_type, and the number of classes.
void read_labels(Settings& s, TextConfig& c);

// rope_parameters, or in older files rope_theta and rope_scaling. The sizes of the stack must be set.
void read_rope(Settings& s, StackConfig& c, std::int64_t max_positions);

}  // namespace transformer
