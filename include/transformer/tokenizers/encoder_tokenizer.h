#pragma once
// The vocabulary of an encoder such as BERT, learned from text: a tokenizer in Hugging Face's format (tokenizer.json) that puts
// [CLS] before a text and [SEP] behind it, with tokens for padding, for what is unknown, and for masks.
//
//   TokenizerPtr tokenizer = train_encoder_tokenizer(read_lines({"train.txt"}), {.vocab_size = 8000});
//   tokenizer->tokenize("a text").tokens;   // [CLS] ▁a ▁text [SEP]

#include <string>

#include "transformer/io/config.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

enum class EncoderPieces : std::uint8_t { bpe, unigram, whitespace, characters };
inline EnumNames<EncoderPieces> names(EncoderPieces) {
  return {{EncoderPieces::bpe, "bpe"},
          {EncoderPieces::unigram, "unigram"},
          {EncoderPieces::whitespace, "whitespace"},
          {EncoderPieces::characters, "char"}};
}

struct EncoderVocabulary {
  EncoderPieces subwords = EncoderPieces::bpe;
  std::int64_t vocab_size = 8000;
  bool lowercase = false;
  double character_coverage = 1.0;

  static void visit(auto& self, auto&& field) {
    field("subwords", self.subwords, "kind of vocabulary; whitespace: every word is a token, char: every character");
    field("vocab_size", self.vocab_size, "tokens of the vocabulary at most, special ones included");
    field("lowercase", self.lowercase, "texts are read in lower case");
    field("character_coverage", self.character_coverage, "bpe and unigram: share of the characters that get a token");
  }
};

// Special tokens: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4. With bpe and unigram, texts are brought into Unicode's form NFKC
// and white space into single spaces. The same lines give the same vocabulary. Error when there is no text, or when vocab_size is
// too small for its characters.
TokenizerPtr train_encoder_tokenizer(const LineSource& lines, const EncoderVocabulary& options = {});

// The tokenizer_config.json that goes with it. types: whether the model knows two kinds of text (token_type_ids).
nlohmann::json encoder_tokenizer_config(std::int64_t max_length, bool types);

}  // namespace transformer
