#pragma once
// How a text is cut before the model sees it: the pre-tokenizers of tokenizer.json.

#include <memory>
#include <nlohmann/json.hpp>

#include "tokenizers/aligned_text.h"
#include "tokenizers/regex.h"
#include "transformer/io/config.h"

namespace transformer {

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void cut(PieceList& list) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

// Of a part of tokenizer.json; none for null. Error for what is not supported.
PreTokenizerPtr read_pre_tokenizer(const nlohmann::json& part, int depth = 0);

// What becomes of the places where text is cut: the-final--countdown, cut at '-', gives
enum class Delimiters : std::uint8_t {
  removed,               // the final countdown
  isolated,              // the - final - - countdown
  merged_with_previous,  // the- final- - countdown
  merged_with_next,      // the -final - -countdown
  contiguous,            // the - final -- countdown
};
inline EnumNames<Delimiters> names(Delimiters) {
  return {{Delimiters::removed, "Removed"},
          {Delimiters::isolated, "Isolated"},
          {Delimiters::merged_with_previous, "MergedWithPrevious"},
          {Delimiters::merged_with_next, "MergedWithNext"},
          {Delimiters::contiguous, "Contiguous"}};
}

// The pieces that a text with these matches falls into; `found` has no meaning in them.
std::vector<PatternMatch> split_at(const std::vector<PatternMatch>& parts, Delimiters delimiters);

// Of the byte-level tokenizers, where a file asks for "use_regex".
extern const char* const gpt2_pattern;

}  // namespace transformer
