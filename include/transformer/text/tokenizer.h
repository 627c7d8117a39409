#pragma once
// Tokenizers: text to token ids and back.
//
//   auto tokenizer = train_sentencepiece(read_lines({"train.en", "train.ko"}), {.vocab_size = 8000});
//   tokenizer->save("tokenizer.model");
//   std::vector<std::int32_t> ids = load_tokenizer("tokenizer.model")->encode("나는 학교에 간다");

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/io/config.h"
#include "transformer/text/lines.h"

namespace transformer {

// The ids of the special tokens; -1 where a tokenizer has none. Tokenizers made here have these.
struct SpecialTokens {
  std::int32_t pad = 0, unk = 1, bos = 2, eos = 3;
};

// Tokenizers do not change once made: one may be used by many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // No special token is added, and none but unk comes out of any text. What is not valid UTF-8 is repaired first
  // (sanitize_utf8) and counted in `replaced`.
  std::vector<std::int32_t> encode(std::string_view text, std::int64_t* replaced = nullptr) const;
  // pad, bos and eos are skipped; an unknown token is shown as the kind has it (" ⁇ " or "<unk>"). Error for an id outside
  // the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

  virtual std::string_view kind() const = 0;  // "sentencepiece", "whitespace"
  virtual std::int64_t size() const = 0;      // of the vocabulary, special tokens included
  std::string piece(std::int32_t id) const { return check(id), piece_of(id); }
  virtual std::int32_t id(std::string_view piece) const = 0;  // unk when there is no such piece
  std::int32_t pad() const { return special_.pad; }
  std::int32_t unk() const { return special_.unk; }
  std::int32_t bos() const { return special_.bos; }
  std::int32_t eos() const { return special_.eos; }

  // Writes the one file that load_tokenizer reads; it appears as a whole or not at all.
  virtual void save(const std::filesystem::path& path) const = 0;

 protected:
  explicit Tokenizer(SpecialTokens special) : special_(special) {}
  virtual std::vector<std::int32_t> encode_valid(std::string_view text) const = 0;  // text is valid UTF-8
  virtual std::string decode_plain(std::span<const std::int32_t> ids) const = 0;    // no pad, bos, eos; all in range
  virtual std::string piece_of(std::int32_t id) const = 0;

 private:
  void check(std::int32_t id) const;
  SpecialTokens special_;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// A SentencePiece .model file or the vocab.txt of a whitespace tokenizer, told by its beginning.
TokenizerPtr load_tokenizer(const std::filesystem::path& path);

enum class SentencePieceKind : std::uint8_t { unigram, bpe };
inline EnumNames<SentencePieceKind> names(SentencePieceKind) {
  return {{SentencePieceKind::unigram, "unigram"}, {SentencePieceKind::bpe, "bpe"}};
}

struct SentencePieceOptions {
  SentencePieceKind kind = SentencePieceKind::bpe;
  std::int64_t vocab_size = 8000;
  bool exact_size = false;
  double character_coverage = 1.0;
  std::string normalization = "nmt_nfkc";
  bool byte_fallback = false;
  std::int64_t seed_pieces = 1000000;
  std::int64_t max_sentences = 10000000;

  static void visit(auto& self, auto&& field) {
    field("kind", self.kind, "kind of subword model");
    field("vocab_size", self.vocab_size, "pieces, special tokens included");
    field("exact_size", self.exact_size, "refuse text too small for vocab_size instead of taking what it gives");
    field("character_coverage", self.character_coverage, "share of the characters that get a piece (0.98 to 1); the rest are unknown");
    field("normalization", self.normalization, "nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf (cf: lower case) or identity");
    field("byte_fallback", self.byte_fallback, "spell characters without a piece in bytes instead of making them unknown");
    field("seed_pieces", self.seed_pieces, "candidates that the unigram model begins with");
    field("max_sentences", self.max_sentences, "longer text is sampled down to this many lines");
  }
};

// Trains a SentencePiece model: the same lines and options give the same model, on any number of cores. Error when there is
// no text, when vocab_size is below what the characters alone need (it says what they need), or, with exact_size, above
// what the text can give (it says how much that is).
TokenizerPtr train_sentencepiece(const LineSource& lines, const SentencePieceOptions& options = {});

struct WhitespaceOptions {
  std::int64_t min_count = 1;
  std::int64_t max_size = 0;

  static void visit(auto& self, auto&& field) {
    field("min_count", self.min_count, "tokens seen less often are unknown");
    field("max_size", self.max_size, "largest vocabulary, special tokens included (0: no limit)");
  }
};

// The vocabulary of text that is already tokenised, its tokens separated by ASCII white space: most frequent first, of
// equally frequent ones the one seen first. Error when there is no text.
TokenizerPtr build_whitespace(const LineSource& lines, const WhitespaceOptions& options = {});

}  // namespace transformer
