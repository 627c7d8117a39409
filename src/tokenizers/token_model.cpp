#include "tokenizers/token_model.h"

#include <algorithm>

#include "io/shared/characters.h"
#include "tokenizers/byte_trie.h"
#include "tokenizers/json_parts.h"

namespace transformer {

void Vocabulary::add(std::string token, std::int64_t id) {
  if (id < 0 || id > 0x7FFFFFF0) fail("vocabulary", "the token '{}' has the id {}", token, id);
  const auto narrow = static_cast<std::int32_t>(id);
  const auto entry = ids_.insert_or_assign(std::move(token), narrow).first;
  tokens_[narrow] = entry->first;
  largest_ = std::max(largest_, id);
}

void Vocabulary::check() const {
  if (largest_ >= 2 * count() + 100'000)
    fail("vocabulary", "the largest id is {}, but there are only {} tokens: the file is damaged", largest_, count());
}

std::int32_t Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

std::string_view Vocabulary::token(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? std::string_view() : found->second;
}

nlohmann::json settings_of(const nlohmann::json& part, std::initializer_list<std::string_view> without) {
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [key, value] : part.items())
    if (key != "type" && std::find(without.begin(), without.end(), key) == without.end()) settings[key] = value;
  return settings;
}

Vocabulary read_vocabulary(const nlohmann::json& part, const char* key) {
  const auto entries = part.find(key);
  if (entries == part.end() || !entries->is_object()) fail("vocabulary", "'{}' must be an object of tokens and their ids", key);
  Vocabulary vocabulary;
  for (const auto& [token, id] : entries->items()) {
    if (!id.is_number_integer()) fail("vocabulary", "the id of '{}' must be an integer, got {}", token, id.type_name());
    vocabulary.add(token, id.is_number_unsigned() && id.get<std::uint64_t>() > 0x7FFFFFFF ? -1 : id.get<std::int64_t>());
  }
  vocabulary.check();
  return vocabulary;
}

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) ids.push_back(vocabulary.find(byte_token(static_cast<unsigned char>(byte))));
  return ids;
}

namespace {

// Greedy: the longest token that the rest of the word begins with (Schuster and Nakajima, 2012).
class WordPiece final : public TokenModel {
 public:
  struct Config {
    std::string unk_token = "[UNK]", continuing_subword_prefix = "##";
    std::int64_t max_input_chars_per_word = 100;
    static void visit(auto& self, auto&& field) {
      field("unk_token", self.unk_token, "the token of words that cannot be spelled");
      field("continuing_subword_prefix", self.continuing_subword_prefix, "what the tokens inside a word begin with");
      field("max_input_chars_per_word", self.max_input_chars_per_word, "longer words are unknown");
    }
  };

  WordPiece(Config config, Vocabulary vocabulary) : config_(std::move(config)), vocabulary_(std::move(vocabulary)) {
    std::vector<std::pair<std::string_view, std::int32_t>> all, inner;
    for (const auto& [token, id] : vocabulary_.ids()) {
      all.emplace_back(token, id);
      if (token.starts_with(config_.continuing_subword_prefix))
        inner.emplace_back(std::string_view(token).substr(config_.continuing_subword_prefix.size()), id);
    }
    first_ = ByteTrie(std::move(all));
    inner_ = ByteTrie(std::move(inner));
    unknown_ = vocabulary_.find(config_.unk_token);
  }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    const std::size_t before = tokens.size();
    bool known = static_cast<std::int64_t>(count_characters(piece)) <= config_.max_input_chars_per_word;
    for (std::size_t begin = 0; known && begin < piece.size();) {
      std::size_t longest = 0;
      std::int32_t id = -1;
      (begin == 0 ? first_ : inner_).for_each_prefix(piece.substr(begin), [&](std::size_t size, std::int32_t value) {
        longest = size;
        id = value;
      });
      known = longest > 0;
      if (known) tokens.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + longest)});
      begin += longest;
    }
    if (known) return;
    if (unknown_ < 0) fail("WordPiece", "the text has unknown words and the vocabulary has no '{}'", config_.unk_token);
    tokens.resize(before);
    tokens.push_back({unknown_, 0, static_cast<std::uint32_t>(piece.size())});
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  Config config_;
  Vocabulary vocabulary_;
  ByteTrie first_, inner_;
  std::int32_t unknown_ = -1;
};

class WordLevel final : public TokenModel {
 public:
  struct Config {
    std::string unk_token = "<unk>";
    static void visit(auto& self, auto&& field) { field("unk_token", self.unk_token, "the token of unknown words"); }
  };
  WordLevel(Config config, Vocabulary vocabulary)
      : config_(std::move(config)), vocabulary_(std::move(vocabulary)), unknown_(vocabulary_.find(config_.unk_token)) {}

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    std::int32_t id = vocabulary_.find(piece);
    if (id < 0) id = unknown_;
    if (id < 0) fail("WordLevel", "'{}' is unknown and the vocabulary has no '{}'", piece, config_.unk_token);
    tokens.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  Config config_;
  Vocabulary vocabulary_;
  std::int32_t unknown_;
};

}  // namespace

TokenModelPtr read_word_piece(const nlohmann::json& part) {
  WordPiece::Config config;
  from_json(settings_of(part, {"vocab"}), config);
  return std::make_unique<WordPiece>(std::move(config), read_vocabulary(part));
}

TokenModelPtr read_word_level(const nlohmann::json& part) {
  WordLevel::Config config;
  from_json(settings_of(part, {"vocab"}), config);
  return std::make_unique<WordLevel>(std::move(config), read_vocabulary(part));
}

TokenModelPtr read_token_model(const nlohmann::json& part) {
  if (!part.is_object()) fail("tokenizer", "the model must be an object, got {}", part.type_name());
  // Older files have no type: what they contain tells.
  std::string type = part.contains("type") ? part_type(part) : "";
  if (type.empty()) {
    const auto vocab = part.find("vocab");
    if (part.contains("merges")) type = "BPE";
    else if (vocab != part.end() && vocab->is_array()) type = "Unigram";
    else type = part.contains("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
  }
  if (type == "BPE") return read_bpe(part);
  if (type == "WordPiece") return read_word_piece(part);
  if (type == "Unigram") return read_unigram(part);
  if (type == "WordLevel") return read_word_level(part);
  unknown_part("model", type, {"BPE", "WordPiece", "Unigram", "WordLevel"});
}

}  // namespace transformer
