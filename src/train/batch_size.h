#pragma once
// Batches that suit the data: with few texts, images or windows, large ones leave an epoch too few updates to learn anything.

#include <algorithm>
#include <cstdint>

#include "transformer/text/token_lists.h"

namespace transformer {

// `usual`, halved until an epoch over `amount` has enough updates; never less than `least`, and `usual` where that is no more.
inline std::int64_t batch_for(std::int64_t amount, std::int64_t usual, std::int64_t least) {
  constexpr std::int64_t enough = 50;
  std::int64_t size = usual;
  while (size / 2 >= std::max<std::int64_t>(least, 1) && amount / size < enough) size /= 2;
  return size;
}

// In tokens: room for the longest text, and for several of the usual length.
inline std::int64_t batch_for_tokens(std::int64_t texts, std::int64_t tokens, std::int64_t longest, std::int64_t usual) {
  constexpr std::int64_t several = 8;
  return std::max(longest, batch_for(tokens, usual, std::max(longest, several * tokens / std::max<std::int64_t>(texts, 1))));
}
inline std::int64_t max_tokens_for(const TokenLists& texts, std::int64_t usual) {
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < texts.count(); ++i) longest = std::max<std::int64_t>(longest, std::ssize(texts.at(i)));
  return batch_for_tokens(texts.count(), texts.total(), longest, usual);
}

}  // namespace transformer
