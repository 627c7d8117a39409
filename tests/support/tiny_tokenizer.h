#pragma once
// Tokenizers small enough for the models of the reference cases: one token a character.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "io/shared/json.h"

namespace transformer::test {

// ids: 0 <pad>, 1 <s>, 2 </s>, then the printable ASCII characters from the space on (as "Ġ"), 98 in all.
constexpr std::int32_t tiny_tokens = 98;
inline std::int32_t tiny_id(char c) { return 3 + c - ' '; }

inline nlohmann::json tiny_tokenizer(bool framed) {
  using Json = nlohmann::json;
  Json vocabulary = {{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}, {"Ġ", 3}}, added = Json::array();
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = tiny_id(c);
  for (const char* name : {"<pad>", "<s>", "</s>"})
    added.push_back({{"id", vocabulary[name]},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  auto special = [](const char* name, int type = 0) { return Json{{"SpecialToken", {{"id", name}, {"type_id", type}}}}; };
  const Json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, b = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  Json tokenizer = {{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", added},
                    {"normalizer", nullptr},
                    {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
                    {"post_processor", nullptr},
                    {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}}},
                    {"model",
                     {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"vocab", vocabulary},
                      {"merges", Json::array()}}}};
  if (framed)
    tokenizer["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {special("<s>"), a, special("</s>")}},
        {"pair", {special("<s>"), a, special("</s>"), b, special("</s>", 1)}},
        {"special_tokens",
         {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}, {"</s>", {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}}}}}};
  return tokenizer;
}

// A tokenizer as LLaMA's: a space in front of every text, which decoding drops again. 0 <unk>, 1 <s>, 2 </s>, 3 ▁, then letters.
inline nlohmann::json tiny_llama_tokenizer() {
  using Json = nlohmann::json;
  Json tokenizer = tiny_tokenizer(false);
  Json vocabulary = {{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}, {"▁", 3}};
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = tiny_id(c);
  tokenizer["model"]["vocab"] = vocabulary;
  tokenizer["model"]["unk_token"] = "<pad>";
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", {{{"type", "Prepend"}, {"prepend", "▁"}}, {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  tokenizer["decoder"] = {{"type", "Sequence"},
                          {"decoders",
                           {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}},
                            {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  return tokenizer;
}

// A copy of a model's folder with such a tokenizer.
inline void copy_with_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to, const nlohmann::json& tokenizer) {
  std::filesystem::create_directories(to);
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"})
    if (std::filesystem::exists(from / name)) std::filesystem::copy_file(from / name, to / name);
  write_json(to / "tokenizer.json", tokenizer);
  write_json(to / "tokenizer_config.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}});
}

}  // namespace transformer::test
