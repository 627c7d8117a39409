#include "tokenizers/tokenizer_parts.h"

#include "io/shared/characters.h"

namespace transformer {

using nlohmann::json;

json special_part(std::string_view token, std::int64_t id) {
  return {{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

json bpe_part(json vocabulary, json merges, std::string_view unknown) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

json merges_of(const std::vector<ScoredPiece>& pieces, const json& ids) {
  json merges = json::array();
  for (const auto& [piece, score] : pieces)  // in the order in which they were learned
    for (std::size_t cut = character_size(piece[0]); cut < piece.size(); cut += character_size(piece[cut]))
      if (ids.contains(piece) && ids.contains(piece.substr(0, cut)) && ids.contains(piece.substr(cut)))
        merges.push_back(json::array({piece.substr(0, cut), piece.substr(cut)}));
  return merges;
}

}  // namespace transformer
