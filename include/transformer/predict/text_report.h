#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "transformer/core/error.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// What becomes of a text that is longer than the model takes: its end is left out and counted, or it is a TooLongError.
enum class LongTexts : std::uint8_t { cut, refuse };

struct TooLongError : Error {
  using Error::Error;
};

// What was odd about texts; nothing of it is an error.
struct TextReport {
  std::int64_t texts = 0;
  std::int64_t empty = 0;         // without a token of their own: their translation is empty
  std::int64_t invalid_utf8 = 0;  // sequences replaced by U+FFFD
  std::int64_t truncated = 0;     // longer than the model takes: only the beginning was read
  std::int64_t unknown = 0;       // more than half of their tokens are unknown to the vocabulary

  std::string summary() const;  // one line for people, empty when there is nothing to say
};

// Is more than half of it unknown to the vocabulary?
bool mostly_unknown(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

}  // namespace transformer
