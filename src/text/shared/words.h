#pragma once
// The words of a text, and the tokens that stand for them: a label of a word is that of its first token.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// Where the words of a text stand. White space separates them; punctuation at their edges is a word of its own, one character each, and
// so is every Chinese character. Inside a word punctuation stays: "(U.N.)" has the words "(", "U.N", ".", ")". The text is valid UTF-8.
std::vector<TokenPlace> split_words(std::string_view text);

// The words with a space between them, and where they stand in it.
struct JoinedWords {
  std::string text;
  std::vector<TokenPlace> places;
};
JoinedWords join_words(std::span<const std::string> words);

// For each word the first token that has a part of it, given the places of both in the text (Encoding::places); -1 where none has: the text
// was cut before it, or its characters are not tokens. A token across several words stands for the first of them.
std::vector<std::int64_t> first_tokens(std::span<const TokenPlace> tokens, std::span<const TokenPlace> words);

}  // namespace transformer
