#pragma once
// Settings of the original Transformer as a Marian model, the family of Hugging Face that is nearest to it.

#include <nlohmann/json.hpp>

#include "transformer/models/transformer.h"

namespace transformer {

struct MarianTokens {
  std::int64_t start = 0, end = 0, padding = 0;  // what the decoder begins with, what ends a sentence, what fills up
};

// config.json of a Marian model with these settings; make_model(marian_config(…)) is the model. Two vocabularies become as
// large as the larger one, since Marian has one size for both; sinusoids are those of Marian. Error for a setting that Marian
// does not have, by name.
nlohmann::json marian_config(const TransformerConfig& config, const MarianTokens& tokens);

}  // namespace transformer
