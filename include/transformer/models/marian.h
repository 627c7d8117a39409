#pragma once
// Settings of the original Transformer as a Marian model, the family of Hugging Face that is nearest to it.

#include <nlohmann/json.hpp>
#include <string>

#include "transformer/models/transformer.h"

namespace transformer {

struct TranslatorTokens {
  std::int64_t start = 0, end = 0, padding = 0;  // what the decoder begins with, what ends a sentence, what fills up
};

// Why no Marian model has these settings: "norm is "pre", but a Marian model has "post"". Empty when one has.
std::string why_not_marian(const TransformerConfig& config);

// config.json of a Marian model with these settings; make_model(marian_config(…)) is the model. Its sinusoids are those of
// Marian. Error where there is no such model.
nlohmann::json marian_config(const TransformerConfig& config, const TranslatorTokens& tokens);

}  // namespace transformer
