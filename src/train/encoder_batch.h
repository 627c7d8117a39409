#pragma once
// Batches of texts for an encoder, as the tasks that train one make them.

#include <algorithm>

#include "transformer/models/text.h"
#include "transformer/text/token_lists.h"
#include "transformer/train/model_task.h"

namespace transformer {

// Texts and what is to be said of them.
struct LabelledBatch {
  PackedTexts texts = {};
  HostTensor labels = {};
};

inline PackedTexts packed_texts(const TokenLists& texts, const std::vector<std::int64_t>& indices) {
  PackedTexts out;
  for (const std::int64_t i : indices) out.add(texts.at(i));
  return out;
}

// Tokens of a batch when texts are judged: always the same, so that the figures are.
inline std::int64_t judging_tokens(const TokenLists& texts) {
  std::int64_t tokens = 8192;
  for (std::int64_t i = 0; i < texts.count(); ++i) tokens = std::max<std::int64_t>(tokens, std::ssize(texts.at(i)));
  return tokens;
}

}  // namespace transformer
