#pragma once
// The batches of an epoch by number of tokens. (Those of parallel text: text/parallel.h.)

#include <cstdint>
#include <vector>

#include "transformer/text/token_lists.h"

namespace transformer {

// Indices of texts, batch by batch: every text once; no batch has more than max_tokens tokens; the texts of a batch have similar
// lengths; the order of the batches is random. A pure function of its arguments and of the lengths, the same on every machine: a
// position in the data is (epoch, number of the batch). Error if a text is too long for a batch of its own.
std::vector<std::vector<std::int64_t>> plan_epoch(const TokenLists& texts, std::int64_t max_tokens, std::uint64_t seed, std::int64_t epoch);

}  // namespace transformer
