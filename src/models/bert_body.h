#pragma once

#include "models/text_family.h"

namespace transformer {

// BERT and RoBERTa: post-norm encoders, learned positions and token types, one norm after the embedding. The names of the body
// and all settings but those of the head. vocabulary and padding: what its configuration class has for them.
TextFamily read_bert(Settings& s, const Family& family, std::string base, std::int64_t vocabulary, std::int64_t padding);

inline DropoutKeys bert_dropout() { return {.all = {"hidden_dropout_prob"}, .attention = {"attention_probs_dropout_prob"}}; }

// The heads they have alike: token classification, and sequence classification's settings.
void read_bert_labels(Settings& s, TextFamily& f);

}  // namespace transformer
