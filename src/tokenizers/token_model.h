#pragma once
// The models of tokenizer.json: a piece of text to tokens.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/word_map.h"

namespace transformer {

// Tokens and their ids. Ids may leave gaps, as they do in real files, but not absurd ones.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) noexcept = default;  // not to be copied: tokens_ refers to ids_
  Vocabulary& operator=(Vocabulary&&) noexcept = default;

  // Of two ids for one token, and of two tokens for one id, the last one counts.
  void add(std::string token, std::int64_t id);
  void check() const;  // Error for gaps that only a damaged file has

  std::int32_t find(std::string_view token) const;  // -1 when there is none
  std::string_view token(std::int32_t id) const;    // "" in a gap
  std::int64_t size() const { return largest_ + 1; }
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }
  const WordMap<std::int32_t>& ids() const { return ids_; }

 private:
  WordMap<std::int32_t> ids_;
  std::unordered_map<std::int32_t, std::string_view> tokens_;  // keys of ids_
  std::int64_t largest_ = -1;
};

struct ModelToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0, end = 0;  // bytes of the piece
  bool as_text = false;              // shown as the text it stands for, not by its name in the vocabulary
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a piece, which is not empty.
  virtual void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::int32_t unknown() const = 0;  // the id of the unknown token, or -1
};
using TokenModelPtr = std::unique_ptr<const TokenModel>;

// Of the part "model" of tokenizer.json.
TokenModelPtr read_token_model(const nlohmann::json& part);

TokenModelPtr read_bpe(const nlohmann::json& part);
TokenModelPtr read_word_piece(const nlohmann::json& part);
TokenModelPtr read_word_level(const nlohmann::json& part);
TokenModelPtr read_unigram(const nlohmann::json& part);

// {"token": id, …}; Error for anything else.
Vocabulary read_vocabulary(const nlohmann::json& part, const char* key = "vocab");
// A copy of the part without its type and the keys named, which can be large.
nlohmann::json settings_of(const nlohmann::json& part, std::initializer_list<std::string_view> without);

// "<0x0A>": the token of a byte where a model falls back on bytes.
std::string byte_token(unsigned char byte);
// The ids of all byte tokens; -1 for those that the vocabulary lacks.
std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace transformer
