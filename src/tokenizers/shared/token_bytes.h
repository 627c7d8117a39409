#pragma once

#include <string>
#include <vector>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// What each token of the vocabulary adds to a text that it does not begin, in bytes: some tokens are parts of a character. Empty for
// special tokens, and where it is not known.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace transformer
