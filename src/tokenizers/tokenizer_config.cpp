#include "tokenizers/shared/tokenizer_config.h"

#include <utility>

namespace transformer {

SpecialNames special_names(const SpecialTokens& ids, const std::function<std::string(std::int32_t id)>& token) {
  const auto name = [&](std::int32_t id) { return id >= 0 ? token(id) : std::string(); };
  return {name(ids.pad), name(ids.unk), name(ids.bos), name(ids.eos), name(ids.cls), name(ids.sep), name(ids.mask)};
}

SpecialNames special_names(const Tokenizer& tokenizer) {
  return special_names(tokenizer.special_tokens(), [&](std::int32_t id) { return tokenizer.piece(id); });
}

nlohmann::json tokenizer_config(const SpecialNames& tokens, nlohmann::json more) {
  for (const auto& [key, token] : {std::pair<const char*, const std::string&>{"pad_token", tokens.pad},
                                   {"unk_token", tokens.unk},
                                   {"bos_token", tokens.bos},
                                   {"eos_token", tokens.eos},
                                   {"cls_token", tokens.cls},
                                   {"sep_token", tokens.sep},
                                   {"mask_token", tokens.mask}})
    if (!token.empty()) more[key] = token;
  return more;
}

}  // namespace transformer
