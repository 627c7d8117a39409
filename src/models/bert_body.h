#pragma once

#include "models/text_family.h"

namespace transformer {

// BERT and RoBERTa: post-norm encoders, learned positions and token types, one norm after the embedding. The names of the body
// and all settings but those of the head; `name` is "Bert" or "Roberta".
TextFamily read_bert(Settings& s, const std::string& name, std::string base);

// The heads they have alike: token classification, and sequence classification's settings.
void read_bert_labels(Settings& s, TextFamily& f);

}  // namespace transformer
