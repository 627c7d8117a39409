#pragma once
// Vocabularies for language models. What is tokenised with them and decoded again is the same text, with every space and line end,
// but for text that spells a special token (which is that token, as Hugging Face has it) and, with a vocabulary of characters, unknown
// ones. They are tokenizer.json files, which Hugging Face opens too.
//
//   TokenizerPtr letters = make_vocabulary(read_lines({"poems.txt"}), {.kind = VocabularyKind::characters});
//   letters->save("tokenizer.json");

#include <cstdint>
#include <string_view>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

enum class VocabularyKind : std::uint8_t {
  characters,  // a token for each Unicode character of the text; others are unknown
  bytes,       // a token for each byte: nothing is unknown, and there is nothing to learn
  bpe,         // subwords by SentencePiece's BPE; characters without a piece are spelled in bytes
  unigram,     // the same by its unigram model
};
inline EnumNames<VocabularyKind> names(VocabularyKind) {
  return {{VocabularyKind::characters, "char"},
          {VocabularyKind::bytes, "byte"},
          {VocabularyKind::bpe, "bpe"},
          {VocabularyKind::unigram, "unigram"}};
}

struct VocabularyOptions {
  VocabularyKind kind = VocabularyKind::characters;
  std::int64_t vocab_size = 8000;   // of subwords: all tokens, the 256 bytes among them
  double character_coverage = 1.0;  // of subwords: share of the characters that get a piece
};

// The token between two documents.
inline constexpr std::string_view end_of_text = "<|endoftext|>";
// The same of any tokenizer: its end of text, or its beginning, or -1.
inline std::int32_t document_token(const Tokenizer& tokenizer) { return tokenizer.eos() >= 0 ? tokenizer.eos() : tokenizer.bos(); }

// Learns from the text, given in pieces of any size; for bytes it is not read. Each has end_of_text and, but for bytes, <unk>. Error
// when there is no text, or the vocabulary is too small for it.
TokenizerPtr make_vocabulary(const LineSource& text, const VocabularyOptions& options);

}  // namespace transformer
