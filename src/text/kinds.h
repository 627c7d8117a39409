#pragma once
// What load_tokenizer chooses from: one reader a kind.

#include <array>
#include <filesystem>
#include <string_view>

#include "transformer/text/tokenizer.h"

namespace transformer {

inline constexpr std::array<std::string_view, 4> whitespace_specials = {"<pad>", "<unk>", "<s>", "</s>"};

TokenizerPtr load_sentencepiece(const std::filesystem::path& path);
TokenizerPtr load_whitespace(const std::filesystem::path& path);

}  // namespace transformer
