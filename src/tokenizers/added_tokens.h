#pragma once
// Tokens that are found in a text before any model sees it: the special ones, and those added to a vocabulary later.

#include <vector>

#include "tokenizers/byte_trie.h"
#include "tokenizers/normalizers.h"
#include "tokenizers/token_model.h"

namespace transformer {

struct AddedToken {
  std::int64_t id = -1;
  std::string content = {};
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
  static void visit(auto& self, auto&& field) {
    field("id", self.id, "its id");
    field("content", self.content, "its text");
    field("single_word", self.single_word, "not inside a word");
    field("lstrip", self.lstrip, "takes the white space before it");
    field("rstrip", self.rstrip, "takes the white space after it");
    field("normalized", self.normalized, "is looked for in normalised text");
    field("special", self.special, "is skipped when decoding");
  }
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Error when a token's id contradicts the model's vocabulary.
  AddedTokens(std::vector<AddedToken> tokens, const Vocabulary& vocabulary, const Normalizer* normalizer);

  // A text with its added tokens found, the rest normalised.
  PieceList find(std::string_view text, const Normalizer* normalizer) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // The token as text has it: normalised where it is looked for in normalised text. "" when there is none.
  std::string_view token(std::int32_t id) const;
  bool is_special(std::int32_t id) const { return places_.contains(id) && tokens_[places_.at(id)].special; }

 private:
  void cut(std::string_view text, std::uint32_t offset, const ByteTrie& trie, std::vector<TextPiece>& pieces) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::string> patterns_;  // the normalised contents
  Vocabulary vocabulary_;
  std::unordered_map<std::int32_t, std::size_t> places_;  // from ids to places in tokens_
  ByteTrie plain_, normalized_;                           // to places in tokens_
};

}  // namespace transformer
