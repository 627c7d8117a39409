#pragma once
// What load_tokenizer chooses from: one reader a kind.

#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "transformer/text/tokenizer.h"

namespace transformer {

inline constexpr std::array<std::string_view, 4> whitespace_specials = {"<pad>", "<unk>", "<s>", "</s>"};

std::string listed(std::span<const std::string_view> words);  // "a, b, c", for messages

TokenizerPtr load_sentencepiece(const std::filesystem::path& path);
TokenizerPtr load_whitespace(const std::filesystem::path& path);

}  // namespace transformer
