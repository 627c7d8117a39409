#pragma once
// Settings of the original Transformer as a model of BART's relatives, in their keys.

#include <string>

#include "transformer/models/marian.h"

namespace transformer {

// Why no model of that family, "a Marian model", has these settings; "" when one has.
std::string why_not(const TransformerConfig& config, const char* model, NormPlace norm);

// config.json but for what the family alone has.
nlohmann::json translator_config(const TransformerConfig& config, const TranslatorTokens& tokens, const char* model_type,
                                 const char* architecture);

}  // namespace transformer
