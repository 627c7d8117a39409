#pragma once
// Settings of the original Transformer with norms before its sublayers as a Pegasus model, the family of Hugging Face that is nearest to
// it.

#include "transformer/models/marian.h"

namespace transformer {

// Why no Pegasus model has these settings; empty when one has.
std::string why_not_pegasus(const TransformerConfig& config);

// config.json of a Pegasus model with these settings, as CTranslate2 wants it too. Error where there is no such model.
nlohmann::json pegasus_config(const TransformerConfig& config, const TranslatorTokens& tokens);

}  // namespace transformer
