#pragma once
// Batches of texts for an encoder, as the tasks that train one make them.

#include <algorithm>

#include "transformer/models/text.h"
#include "transformer/text/token_lists.h"
#include "transformer/train/model_task.h"

namespace transformer {

inline std::int64_t padding_of(const TextModel& model) {
  return std::clamp<std::int64_t>(model.text().padding, 0, model.text().vocabulary - 1);
}

// input_ids and attention_mask [texts, longest] of these texts.
inline HostTensors padded_ids(const TokenLists& texts, const std::vector<std::int64_t>& indices, std::int64_t padding) {
  std::size_t longest = 1;
  for (const std::int64_t i : indices) longest = std::max(longest, texts.at(i).size());
  std::vector<std::int64_t> ids(indices.size() * longest, padding), mask(ids.size(), 0);
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto from = texts.at(indices[row]);
    const auto at = static_cast<std::ptrdiff_t>(row * longest);
    std::copy(from.begin(), from.end(), ids.begin() + at);
    std::fill_n(mask.begin() + at, from.size(), 1);
  }
  const Shape shape{static_cast<std::int64_t>(indices.size()), static_cast<std::int64_t>(longest)};
  HostTensors out;
  out["input_ids"] = {shape, std::move(ids)};
  out["attention_mask"] = {shape, std::move(mask)};
  return out;
}

// Tokens of a batch when texts are judged: always the same, so that the figures are.
inline std::int64_t judging_tokens(const TokenLists& texts) {
  std::int64_t tokens = 8192;
  for (std::int64_t i = 0; i < texts.count(); ++i) tokens = std::max<std::int64_t>(tokens, std::ssize(texts.at(i)));
  return tokens;
}

}  // namespace transformer
