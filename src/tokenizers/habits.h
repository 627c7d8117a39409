#pragma once
// The small files beside a Hugging Face tokenizer (tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the model's
// config.json), and what the readers of all its files share.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tokenizers/pipeline.h"
#include "transformer/core/error.h"

namespace transformer {

// What the small files beside a tokenizer say.
class Habits {
 public:
  Habits() = default;
  explicit Habits(const std::filesystem::path& folder);

  bool any() const { return !parsed_.empty() || !model_type_.empty(); }
  const std::map<std::string, std::string>& files() const { return files_; }

  // The first of the files that has the key and says something; null otherwise.
  const nlohmann::json& get(const std::string& key) const;
  bool flag(const std::string& key, bool otherwise) const { return get(key).is_boolean() ? get(key).get<bool>() : otherwise; }
  // "bos_token": "<s>" or {"content": "<s>", …}.
  std::string token(const std::string& key, const std::string& otherwise = "") const;
  // Does the tokenizer's class, or the model's type, contain this (in lower case)?
  bool is(std::string_view family) const;
  // Tokens of added_tokens.json and of the "added_tokens_decoder" of tokenizer_config.json.
  std::vector<AddedToken> added() const;
  static void add(std::vector<AddedToken>& tokens, AddedToken token);  // unless it is there

 private:
  std::vector<std::pair<std::string, nlohmann::json>> parsed_;
  std::map<std::string, std::string> files_;
  std::string model_type_;
};

std::int32_t id_in(const Pipeline& parts, const std::string& token);  // -1: it has none

// The special tokens that the files name; without such files, those that have the usual names.
void find_special_tokens(Pipeline& parts, const Habits& habits);

// What belongs into a model's folder for the same tokenizer to come out of it: the files under the names that are looked for there,
// whatever they were called, and what the small files say. Where none names the special tokens, one is made that does, with the class:
// beside the config.json of a model the usual names are not guessed, and that model may be of another family.
void add_files(Pipeline& parts, const Habits& habits, const char* tokenizer_class, std::map<std::string, std::string> files);

// Parts of a post-processor: "A", and a special token. frame: "bos A eos" and "bos A eos bos B eos"; an empty name is left out.
nlohmann::json text_step(const char* id, int type);
nlohmann::json token_step(const std::string& token, int type);
nlohmann::json frame(const std::string& bos, const std::string& eos, const Pipeline& parts, bool bos_twice = true);

// The decoder of SentencePiece's pieces; `both`: spaces go at both ends, otherwise one at the beginning.
Decoder piece_decoder(bool both);

// Runs read with the file's name in its errors.
auto in_file(const std::filesystem::path& path, auto&& read) {
  try {
    return read();
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with(path.string())) throw;
    fail(path.string(), "{}", e.what());
  }
}

}  // namespace transformer
