#pragma once
// The tokenizers of a translator: one for both languages, or one for each.

#include <filesystem>

#include "transformer/text/tokenizer.h"

namespace transformer {

struct TokenizerPair {
  TokenizerPtr source, target;  // the same object when joint
  bool joint() const { return source == target; }
};

// In a model's folder: tokenizer.model when joint, otherwise source.model and target.model; or the files of a Hugging Face model
// (load_tokenizer), where Marian has source.spm, target.spm and one vocab.json for both.
TokenizerPair load_tokenizers(const std::filesystem::path& folder);
bool has_tokenizers(const std::filesystem::path& folder);
void save_tokenizers(const TokenizerPair& pair, const std::filesystem::path& folder);

// A hash of all pieces in their order: training that is resumed with another vocabulary can be refused.
std::uint64_t fingerprint(const Tokenizer& tokenizer);

}  // namespace transformer
