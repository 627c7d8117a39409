#pragma once
// Parts of a tokenizer.json, for vocabularies that are made here.

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "tokenizers/shared/kinds.h"

namespace transformer {

// An entry of "added_tokens": a special token, found in texts as it is written.
nlohmann::json special_part(std::string_view token, std::int64_t id);

// The model "BPE"; vocabulary: tokens and their ids. Without merges every character is a token.
nlohmann::json bpe_part(nlohmann::json vocabulary, nlohmann::json merges, std::string_view unknown);

// The merges of pieces that SentencePiece's BPE has learned. It merges those neighbours whose concatenation was learned first, whatever
// the two are: so each way to make a piece of two others that have ids is a merge, written as a list of both, for there may be spaces in
// them.
nlohmann::json merges_of(const std::vector<ScoredPiece>& pieces, const nlohmann::json& ids);

}  // namespace transformer
