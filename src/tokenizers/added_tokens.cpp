#include "tokenizers/added_tokens.h"

#include <algorithm>

#include "io/shared/characters.h"
#include "transformer/core/error.h"

namespace transformer {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::vector<std::pair<std::string_view, std::int32_t>> plain, normalized;
  patterns_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    const std::int32_t known = vocabulary.find(token.content);
    if (known >= 0 && known != token.id)
      fail("added_tokens", "'{}' has the id {}, but {} in the model's vocabulary", token.content, token.id, known);
    vocabulary_.add(token.content, token.id);
    if (vocabulary_.size() >= 2 * (vocabulary.count() + vocabulary_.count()) + 100'000)
      fail("added_tokens", "'{}' has the id {}, far beyond the vocabulary: the file is damaged", token.content, token.id);
    places_[static_cast<std::int32_t>(token.id)] = i;
    AlignedText pattern{token.content, {}, 0};
    pattern.longest = 4096 + growth_limit * token.content.size();
    if (token.normalized && normalizer != nullptr) normalizer->normalize(pattern);
    patterns_.push_back(std::move(pattern.text));
    (token.normalized ? normalized : plain).emplace_back(patterns_.back(), static_cast<std::int32_t>(i));
  }
  plain_ = ByteTrie(std::move(plain));
  normalized_ = ByteTrie(std::move(normalized));
}

std::string_view AddedTokens::token(std::int32_t id) const {
  const auto found = places_.find(id);
  return found == places_.end() ? std::string_view() : patterns_[found->second];
}

// The longest token at the leftmost place, again and again.
void AddedTokens::cut(std::string_view text, std::uint32_t offset, const ByteTrie& trie, std::vector<TextPiece>& pieces) const {
  std::size_t covered = 0;
  const auto put = [&](std::size_t begin, std::size_t end, std::int32_t id) {
    if (begin < end) pieces.push_back({offset + static_cast<std::uint32_t>(begin), offset + static_cast<std::uint32_t>(end), id});
  };
  for (std::size_t at = 0; at < text.size() && !trie.empty();) {
    std::size_t size = 0;
    std::int32_t place = -1;
    if (trie.begins_key(text[at])) {
      trie.for_each_prefix(text.substr(at), [&](std::size_t bytes, std::int32_t value) {
        size = bytes;
        place = value;
      });
    }
    if (size == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(place)];
    std::size_t begin = at, end = at + size;
    at = end;
    if (token.single_word) {
      std::size_t before = begin, after = end;
      if (begin > 0 && is_word_character(previous_character(text, before))) continue;
      if (end < text.size() && is_word_character(next_character(text, after))) continue;
    }
    if (token.lstrip)
      for (std::size_t before = begin; begin > covered && is_white_space(previous_character(text, before));) begin = before;
    if (token.rstrip)
      for (std::size_t after = end; end < text.size() && is_white_space(next_character(text, after));) end = after;
    begin = std::max(begin, covered);
    at = std::max(at, end);
    put(covered, begin, -1);
    put(begin, end, static_cast<std::int32_t>(token.id));
    covered = end;
  }
  put(covered, text.size(), -1);
}

PieceList AddedTokens::find(std::string_view text, const Normalizer* normalizer) const {
  std::vector<TextPiece> raw;
  cut(text, 0, plain_, raw);
  PieceList list;
  if (normalizer == nullptr && normalized_.empty()) {
    list.text.text = text;
    list.pieces = std::move(raw);
    return list;
  }
  for (const TextPiece& piece : raw) {
    const auto begin = static_cast<std::uint32_t>(list.text.text.size());
    AlignedText part{std::string(text.substr(piece.begin, piece.end - piece.begin)), {}, piece.begin};
    part.longest = 4096 + growth_limit * part.text.size();
    if (piece.id < 0 && normalizer != nullptr) normalizer->normalize(part);
    if (piece.id >= 0) list.pieces.push_back({begin, begin + static_cast<std::uint32_t>(part.text.size()), piece.id});
    else cut(part.text, begin, normalized_, list.pieces);
    list.text.append(part);
  }
  return list;
}

}  // namespace transformer
