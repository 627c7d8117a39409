// Byte-pair encoding (Sennrich et al., 2016): a word begins as its characters; of all neighbours that may merge, the pair that
// was learned first does, the leftmost first, until none is left.
#include <algorithm>
#include <array>
#include <bit>

#include "io/shared/characters.h"
#include "tokenizers/json_parts.h"
#include "tokenizers/token_model.h"

namespace transformer {
namespace {

struct Merge {
  std::uint32_t rank = 0;
  std::int32_t id = -1;
};

// Pairs of ids to what they merge into: a table with open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges) : entries_(std::bit_ceil(2 * merges + 2)) {}

  void set(std::int32_t left, std::int32_t right, Merge merge) { entries_[place(key_of(left, right))] = {key_of(left, right), merge}; }
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const Entry& entry = entries_[place(key_of(left, right))];
    return entry.merge.id < 0 ? nullptr : &entry.merge;
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Merge merge;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {  // of the key, or of the free entry where it belongs
    std::uint64_t hash = key * 0x9E3779B97F4A7C15ULL;
    for (hash ^= hash >> 32;; ++hash) {
      const Entry& entry = entries_[hash & (entries_.size() - 1)];
      if (entry.merge.id < 0 || entry.key == key) return hash & (entries_.size() - 1);
    }
  }
  std::vector<Entry> entries_;
};

struct BpeConfig {
  std::optional<double> dropout = std::nullopt;
  std::optional<std::string> unk_token = std::nullopt, continuing_subword_prefix = std::nullopt, end_of_word_suffix = std::nullopt;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
  static void visit(auto& self, auto&& field) {
    field("dropout", self.dropout, "merges left out at random, for training");
    field("unk_token", self.unk_token, "the token of unknown characters");
    field("continuing_subword_prefix", self.continuing_subword_prefix, "what the tokens inside a word begin with");
    field("end_of_word_suffix", self.end_of_word_suffix, "what the last token of a word ends with");
    field("fuse_unk", self.fuse_unk, "neighbours that are unknown are one token");
    field("byte_fallback", self.byte_fallback, "unknown characters are spelled in bytes");
    field("ignore_merges", self.ignore_merges, "a word that is a token is not merged together");
  }
};

class Bpe final : public TokenModel {
 public:
  Bpe(BpeConfig config, Vocabulary vocabulary, MergeTable merges)
      : config_(std::move(config)), vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), bytes_(byte_tokens(vocabulary_)) {
    if (config_.unk_token) unknown_ = vocabulary_.find(*config_.unk_token);
    plain_ = config_.continuing_subword_prefix.value_or("").empty() && config_.end_of_word_suffix.value_or("").empty();
    for (std::size_t c = 0; c < frequent_.size(); ++c) {
      std::string text;
      append_character(text, static_cast<char32_t>(c));
      frequent_[c] = vocabulary_.find(text);
    }
  }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    if (config_.ignore_merges) {
      if (const std::int32_t id = vocabulary_.find(piece); id >= 0) {
        tokens.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
        return;
      }
    }
    std::vector<Symbol> symbols = spell(piece);
    merge(symbols);
    for (const Symbol& symbol : symbols)
      if (symbol.end > symbol.begin) tokens.push_back({symbol.id, symbol.begin, symbol.end});
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::int32_t unknown() const override { return unknown_; }

 private:
  struct Symbol {  // merged away: begin == end
    std::int32_t id;
    std::uint32_t begin, end;
    std::int32_t previous, next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t left, merged;
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
  };

  std::int32_t id_of(std::string_view piece, std::size_t begin, std::size_t end) const {
    if (plain_) {
      std::size_t at = begin;
      const char32_t c = next_character(piece, at);
      return c < frequent_.size() ? frequent_[c] : vocabulary_.find(piece.substr(begin, end - begin));
    }
    std::string text(piece.substr(begin, end - begin));
    if (begin > 0) text.insert(0, config_.continuing_subword_prefix.value_or(""));
    if (end == piece.size()) text += config_.end_of_word_suffix.value_or("");
    return vocabulary_.find(text);
  }

  bool has_bytes(std::string_view text) const {
    return std::all_of(text.begin(), text.end(), [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] >= 0; });
  }

  // The characters of a piece; what is unknown and has no token is left out, as Hugging Face does.
  std::vector<Symbol> spell(std::string_view piece) const {
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    bool after_unknown = false;
    const auto add = [&](std::int32_t id, std::size_t begin, std::size_t end) {
      const auto at = static_cast<std::int32_t>(symbols.size());
      symbols.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), at - 1, at + 1});
    };
    for (std::size_t begin = 0, end = 0; begin < piece.size(); begin = end) {
      end = begin + character_size(piece[begin]);
      const std::int32_t id = id_of(piece, begin, end);
      const bool fused = after_unknown && config_.fuse_unk;
      after_unknown = false;
      if (id >= 0) {
        add(id, begin, end);
      } else if (config_.byte_fallback && has_bytes(piece.substr(begin, end - begin))) {
        for (std::size_t i = begin; i < end; ++i) add(bytes_[static_cast<unsigned char>(piece[i])], i, i + 1);
      } else if (config_.unk_token) {
        if (unknown_ < 0) fail("BPE", "the text has unknown characters and the vocabulary has no '{}'", *config_.unk_token);
        if (fused) symbols.back().end = static_cast<std::uint32_t>(end);
        else add(unknown_, begin, end);
        after_unknown = true;
      }
    }
    if (!symbols.empty()) symbols.back().next = -1;
    return symbols;
  }

  void merge(std::vector<Symbol>& symbols) const {
    std::vector<Candidate> heap;
    heap.reserve(symbols.size());
    const auto consider = [&](std::int32_t left) {
      if (left < 0 || symbols[static_cast<std::size_t>(left)].next < 0) return;
      const Symbol& a = symbols[static_cast<std::size_t>(left)];
      const Merge* found = merges_.find(a.id, symbols[static_cast<std::size_t>(a.next)].id);
      if (found == nullptr) return;
      heap.push_back({found->rank, left, found->id});
      std::push_heap(heap.begin(), heap.end());
    };
    for (std::size_t i = 0; i < symbols.size(); ++i) consider(static_cast<std::int32_t>(i));
    while (!heap.empty()) {
      const Candidate best = heap.front();
      std::pop_heap(heap.begin(), heap.end());
      heap.pop_back();
      Symbol& left = symbols[static_cast<std::size_t>(best.left)];
      if (left.begin == left.end || left.next < 0) continue;
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      const Merge* found = merges_.find(left.id, right.id);  // the neighbours may have changed since
      if (found == nullptr || found->id != best.merged || found->rank != best.rank) continue;
      left.id = best.merged;
      left.end = right.end;
      right.begin = right.end;
      left.next = right.next;
      if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
      consider(left.previous);
      consider(best.left);
    }
  }

  BpeConfig config_;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::vector<std::int32_t> bytes_;
  std::array<std::int32_t, 0x400> frequent_{};  // the ids of the first characters of Unicode
  std::int32_t unknown_ = -1;
  bool plain_ = true;  // neither prefix nor suffix
};

std::pair<std::string, std::string> read_merge(const nlohmann::json& merge, std::size_t number) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  fail("BPE", "merge {} must be two tokens", number);
}

}  // namespace

TokenModelPtr read_bpe(const nlohmann::json& part) {
  BpeConfig config;
  from_json(settings_of(part, {"vocab", "merges"}), config);
  if (config.dropout.value_or(0.0) != 0.0) fail("BPE", "dropout {} makes encoding random; set it to null", *config.dropout);
  Vocabulary vocabulary = read_vocabulary(part);
  const auto merges = part.find("merges");
  if (merges == part.end() || !merges->is_array()) fail("BPE", "'merges' must be a list");
  MergeTable table(merges->size());
  const std::size_t prefix = config.continuing_subword_prefix.value_or("").size();
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const auto [left, right] = read_merge((*merges)[i], i);
    const std::string merged = left + (prefix <= right.size() ? right.substr(prefix) : "");
    const auto id_of = [&, number = i](const std::string& token) {
      const std::int32_t id = vocabulary.find(token);
      if (id < 0) fail("BPE", "merge {}: '{}' is not in the vocabulary", number, token);
      return id;
    };
    const std::int32_t left_id = id_of(left), right_id = id_of(right);
    table.set(left_id, right_id, {static_cast<std::uint32_t>(i), id_of(merged)});
  }
  return std::make_unique<Bpe>(std::move(config), std::move(vocabulary), std::move(table));
}

}  // namespace transformer
