#pragma once
// Inputs to begin with: small files of tests/golden, cut down where they are large, and the files of fuzz/seeds/TARGET.

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transformer::fuzz {

std::vector<std::string> safetensors_seeds();
std::vector<std::string> index_seeds();
std::vector<std::string> config_seeds();
std::vector<std::string> adapter_seeds();
std::vector<std::string> generation_seeds();
std::vector<std::string> labelled_seeds();
std::vector<std::string> tagged_seeds();
std::vector<std::string> table_seeds();
std::vector<std::string> toml_seeds();
std::vector<std::string> tokenizer_seeds();
std::vector<std::string> vocabulary_seeds();
std::vector<std::string> chat_seeds();
std::vector<std::string> processor_seeds();
std::vector<std::string> image_seeds(std::string_view end);  // ".png"
std::vector<std::string> idx_seeds();
std::vector<std::string> tokens_seeds();
std::vector<std::string> request_seeds();

// A folder of tests/golden.
std::filesystem::path golden_folder(std::string_view name);

// The bytes of a safetensors file with tensors of these names, two numbers each.
std::string small_safetensors(const std::vector<std::string>& names);

// Several files in one input: each begins with a line "=== NAME". Names that are not in the list are left out.
inline constexpr std::array vocabulary_files{"vocab.json",
                                             "merges.txt",
                                             "vocab.txt",
                                             "tokenizer.model",
                                             "spiece.model",
                                             "sentencepiece.bpe.model",
                                             "source.spm",
                                             "target.spm",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "added_tokens.json",
                                             "config.json"};
std::vector<std::pair<std::string, std::string>> split_files(std::string_view input);

}  // namespace transformer::fuzz
