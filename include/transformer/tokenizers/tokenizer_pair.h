#pragma once
// The tokenizers of a translator: one for both languages, or one for each.

#include <filesystem>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// The special tokens that a model wants around a text: before + encode(text) + behind are the ids of tokenize(text).
struct TokenFrame {
  std::vector<std::int32_t> before = {}, behind = {};
};
TokenFrame frame_of(const Tokenizer& tokenizer);

struct TokenizerPair {
  TokenizerPtr source, target;  // the same object when joint
  // Of a model for many languages: the token of the target's language, which a target begins with, alone (mBART) or behind the
  // decoder's start token; -1: none.
  std::int32_t language = -1;
  bool language_alone = false;

  bool joint() const { return source == target; }
};

// In a model's folder: tokenizer.model when joint, otherwise source.model and target.model; or the files of a Hugging Face model
// (load_tokenizer), where Marian has source.spm, target.spm and one vocab.json for both.
TokenizerPair load_tokenizers(const std::filesystem::path& folder);
bool has_tokenizers(const std::filesystem::path& folder);
void save_tokenizers(const TokenizerPair& pair, const std::filesystem::path& folder);

// For models of many languages, as they write them: en, en_XX, eng_Latn.
struct Languages {
  std::string source_lang = {}, target_lang = {};
  std::int32_t usual_target = -1;  // the token of the target's language that the model's folder names, if any

  static void visit(auto& self, auto&& field) {
    field("source_lang", self.source_lang, "language of the source, for models of many: en (M2M100), en_XX (mBART), eng_Latn (NLLB)");
    field("target_lang", self.target_lang, "language of the target, for models of many");
  }
};
// The tokenizers of a translator. Of a model for many languages, those of two of them: what is not given is what the folder says;
// Error where it says nothing. Error for a language that the model does not know, or one given for a model without.
TokenizerPair load_tokenizers(const std::filesystem::path& folder, const Languages& languages);

// What SentencePiece has learned, with the ids of a published Marian model: </s> 0, <unk> 1, the pieces, <pad> last (of two vocabularies:
// <pad> 2, the same in both). It is saved as MarianTokenizer's files.
TokenizerPair marian_tokenizers(const TokenizerPair& sentencepiece);
// The same as a tokenizer.json with <pad> 0, </s> 1, <unk> 2, for a Pegasus model.
TokenizerPtr pegasus_tokenizer(const Tokenizer& sentencepiece);

// A hash of all pieces in their order: training that is resumed with another vocabulary can be refused.
std::uint64_t fingerprint(const Tokenizer& tokenizer);

}  // namespace transformer
