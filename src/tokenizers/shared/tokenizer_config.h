#pragma once
// tokenizer_config.json, as it is written here: the one place that knows how the special tokens are called there.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// The special tokens as they are spelled; an empty one is left out.
struct SpecialNames {
  std::string pad = {}, unk = {}, bos = {}, eos = {}, cls = {}, sep = {}, mask = {};
};
// token(id): how it is spelled.
SpecialNames special_names(const SpecialTokens& ids, const std::function<std::string(std::int32_t id)>& token);
SpecialNames special_names(const Tokenizer& tokenizer);

// `more`: what else the file says.
nlohmann::json tokenizer_config(const SpecialNames& tokens, nlohmann::json more);

}  // namespace transformer
