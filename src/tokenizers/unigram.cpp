// The unigram model (Kudo, 2018): of all ways to spell a piece the one whose tokens have the largest sum of log-probabilities.
#include <algorithm>
#include <limits>

#include "io/shared/characters.h"
#include "tokenizers/byte_trie.h"
#include "tokenizers/json_parts.h"
#include "tokenizers/token_model.h"

namespace transformer {
namespace {

class Unigram final : public TokenModel {
 public:
  struct Config {
    std::optional<std::int64_t> unk_id = std::nullopt;
    bool byte_fallback = false;
    static void visit(auto& self, auto&& field) {
      field("unk_id", self.unk_id, "the unknown token");
      field("byte_fallback", self.byte_fallback, "what is unknown is spelled in bytes");
    }
  };

  Unigram(const Config& config, Vocabulary vocabulary, std::vector<double> scores)
      : byte_fallback_(config.byte_fallback), vocabulary_(std::move(vocabulary)), scores_(std::move(scores)),
        bytes_(byte_tokens(vocabulary_)) {
    if (config.unk_id) {
      if (*config.unk_id < 0 || *config.unk_id >= static_cast<std::int64_t>(scores_.size()))
        fail("Unigram", "unk_id is {}, but the vocabulary has {} tokens", *config.unk_id, scores_.size());
      unknown_ = static_cast<std::int32_t>(*config.unk_id);
    }
    std::vector<std::pair<std::string_view, std::int32_t>> keys;
    for (const auto& [token, id] : vocabulary_.ids()) keys.emplace_back(token, id);
    trie_ = ByteTrie(std::move(keys));
    constexpr double penalty = 10.0;  // of an unknown character, below the least likely token
    unknown_score_ = std::numeric_limits<double>::infinity();
    for (const double score : scores_) unknown_score_ = std::min(unknown_score_, score);
    unknown_score_ -= penalty;
  }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    struct Step {  // the best way to reach a place
      double score = 0.0;
      std::uint32_t begin = 0;
      std::int32_t id = -1;  // -1: not reached
    };
    std::vector<Step> best(piece.size() + 1);
    for (std::size_t begin = 0; begin < piece.size();) {
      const std::size_t character = character_size(piece[begin]);
      const double so_far = best[begin].score;
      const auto reach = [&](std::size_t size, double score, std::int32_t id) {
        Step& step = best[begin + size];
        if (step.id < 0 || so_far + score > step.score) step = {so_far + score, static_cast<std::uint32_t>(begin), id};
      };
      bool spelled = false;  // the one character alone
      trie_.for_each_prefix(piece.substr(begin), [&](std::size_t size, std::int32_t id) {
        reach(size, scores_[static_cast<std::size_t>(id)], id);
        spelled = spelled || size == character;
      });
      if (!spelled) {
        if (unknown_ < 0) fail("Unigram", "the text has unknown characters and the model has no unk_id");
        reach(character, unknown_score_, unknown_);
      }
      begin += character;
    }

    const std::size_t first = tokens.size();
    for (auto end = static_cast<std::uint32_t>(piece.size()); end > 0;) {  // neighbours that are unknown are one token
      const Step& step = best[end];
      if (step.id == unknown_ && tokens.size() > first && tokens.back().id == unknown_) tokens.back().begin = step.begin;
      else tokens.push_back({step.id, step.begin, end});
      end = step.begin;
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
    if (unknown_ >= 0) spell_unknown(piece, tokens, first);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  // Unknown text that is a token after all, or can be spelled in bytes; what remains shows itself.
  void spell_unknown(std::string_view piece, std::vector<ModelToken>& tokens, std::size_t first) const {
    const auto is_unknown = [&](const ModelToken& token) { return token.id == unknown_; };
    if (std::none_of(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(), is_unknown)) return;
    std::vector<ModelToken> spelled;
    for (std::size_t i = first; i < tokens.size(); ++i) {
      ModelToken token = tokens[i];
      const std::string_view text = piece.substr(token.begin, token.end - token.begin);
      if (!is_unknown(token)) {
        spelled.push_back(token);
      } else if (const std::int32_t id = vocabulary_.find(text); id >= 0) {
        spelled.push_back({id, token.begin, token.end});
      } else if (byte_fallback_ &&
                 std::all_of(text.begin(), text.end(), [&](char c) { return bytes_[static_cast<unsigned char>(c)] >= 0; })) {
        for (const char c : text) spelled.push_back({bytes_[static_cast<unsigned char>(c)], token.begin, token.end});
      } else {
        token.as_text = true;
        spelled.push_back(token);
      }
    }
    tokens.resize(first);
    tokens.insert(tokens.end(), spelled.begin(), spelled.end());
  }

  bool byte_fallback_;
  Vocabulary vocabulary_;
  std::vector<double> scores_;  // by id
  std::vector<std::int32_t> bytes_;
  ByteTrie trie_;
  std::int32_t unknown_ = -1;
  double unknown_score_ = 0.0;
};

}  // namespace

TokenModelPtr read_unigram(const nlohmann::json& part) {
  Unigram::Config config;
  from_json(settings_of(part, {"vocab"}), config);
  const auto entries = part.find("vocab");
  if (entries == part.end() || !entries->is_array()) fail("Unigram", "'vocab' must be a list of tokens and their scores");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const nlohmann::json& entry : *entries) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      fail("Unigram", "entry {} of the vocabulary must be a token and its score", scores.size());
    vocabulary.add(entry[0].get<std::string>(), static_cast<std::int64_t>(scores.size()));
    scores.push_back(entry[1].get<double>());
  }
  return std::make_unique<Unigram>(config, std::move(vocabulary), std::move(scores));
}

}  // namespace transformer
