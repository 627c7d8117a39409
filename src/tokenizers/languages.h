#pragma once
// Tokenizers of models for many languages (M2M100, NLLB, mBART): a token beside each text says which one it is in.

#include <optional>

#include "tokenizers/habits.h"

namespace transformer {

// Reads sentencepiece.bpe.model (with vocab.json: M2M100) of such a folder; null when it is of another family.
TokenizerPtr load_many_languages(const std::filesystem::path& folder, const Habits& habits);

// Which languages a tokenizer of such a family knows, and where their tokens stand.
void find_languages(Pipeline& parts, const Habits& habits);

// The tokenizer for texts in that language. `flag` is what the user typed, "--source-lang". Error names those that are near.
TokenizerPtr in_language(const TokenizerPtr& tokenizer, const std::string& language, const char* flag);

// The codes of the published models, in the order of their ids.
enum class LanguageList : std::uint8_t { m2m_100, wmt21, mbart, mbart_50, nllb };
const std::vector<std::string>& language_codes(LanguageList list);

}  // namespace transformer
