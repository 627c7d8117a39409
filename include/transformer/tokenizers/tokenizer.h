#pragma once
// Tokenizers: text to token ids and back.
//
//   TokenizerPtr tokenizer = load_tokenizer("bert-base-uncased");      // a model's folder, or one file
//   Encoding encoding = tokenizer->tokenize("나는 학교에 간다");        // ids with the special tokens, tokens, places in the text
//   std::string text = tokenizer->decode(encoding.ids);
//
//   auto trained = train_sentencepiece(read_lines({"train.en", "train.ko"}), {.vocab_size = 8000});
//   trained->save("tokenizer.model");

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/io/config.h"
#include "transformer/io/lines.h"

namespace transformer {

// The ids of the special tokens; -1 where a tokenizer has none. Tokenizers made here have these.
struct SpecialTokens {
  std::int32_t pad = 0, unk = 1, bos = 2, eos = 3;
  std::int32_t cls = -1, sep = -1, mask = -1;
};

// Where in the text a token comes from: bytes [begin, end) of the text as it was given, always whole characters. Tokens that
// are parts of one character have the place of all of it.
struct TokenPlace {
  std::int64_t begin = 0, end = 0;
  bool operator==(const TokenPlace&) const = default;
};

// Everything about the tokens of a text, or of two texts that belong together. All lists have the same length.
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::string> tokens;     // as the vocabulary has them; unknown text may show itself
  std::vector<TokenPlace> places;      // {0, 0} for a special token that was added
  std::vector<std::int32_t> type_ids;  // which of two texts, as the model wants it: 0 or 1
  std::vector<std::uint8_t> added;     // 1 for the special tokens that were added, 0 for what comes from the text

  std::size_t size() const { return ids.size(); }
};

// Turns ids into text as they come; made by Tokenizer::detokenizer.
class Detokenizer {
 public:
  virtual ~Detokenizer() = default;
  virtual void push(std::int32_t id, std::string& out) = 0;  // appends what is certain now
  virtual void finish(std::string& out) = 0;                 // appends the rest; nothing is pushed after this
};

// Tokenizers do not change once made: one may be used by many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids alone, without any special token around them. Text that spells a special token is plain text for the kinds made
  // here; for tokenizers of Hugging Face models it is that token, as it is there. What is not valid UTF-8 is repaired first
  // (sanitize_utf8) and counted in `replaced`.
  std::vector<std::int32_t> encode(std::string_view text, std::int64_t* replaced = nullptr) const;

  // Ids, tokens and places. With special_tokens: those that the model wants around its text, such as [CLS] … [SEP] or … </s>;
  // the kinds made here have none.
  Encoding tokenize(std::string_view text, bool special_tokens = true) const;
  // Two texts that are one input: a question and its context, a premise and a hypothesis. The places of the second one's
  // tokens are places in the second text.
  Encoding tokenize_pair(std::string_view first, std::string_view second, bool special_tokens = true) const;

  // Special tokens are skipped unless the caller wants to see them; an unknown token is shown as the kind has it (" ⁇ ",
  // "<unk>"). Error for an id outside the vocabulary; but models of Hugging Face may have more rows than their tokenizer has
  // tokens: there, larger ids have no text.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const;
  // Does decode skip it?
  virtual bool is_special(std::int32_t id) const { return id == pad() || id == bos() || id == eos(); }

  virtual std::string_view kind() const = 0;  // "sentencepiece", "whitespace", "huggingface"
  virtual std::int64_t size() const = 0;      // the largest id and one, special tokens included
  std::string piece(std::int32_t id) const { return check(id), piece_of(id); }
  virtual std::int32_t id(std::string_view piece) const = 0;  // unk when there is no such piece
  std::int32_t pad() const { return special_.pad; }
  std::int32_t unk() const { return special_.unk; }
  std::int32_t bos() const { return special_.bos; }
  std::int32_t eos() const { return special_.eos; }
  const SpecialTokens& special_tokens() const { return special_; }

  // Writes the one file that load_tokenizer reads; it appears as a whole or not at all.
  virtual void save(const std::filesystem::path& path) const = 0;
  // Writes the tokenizer into a model's folder, from where load_tokenizer has it again: NAME.model for the kinds made here, the
  // files it was loaded from, byte for byte, for others, under the names that are looked for there, and where they do not say which the
  // special tokens are, a tokenizer_config.json that does.
  virtual void save_into(const std::filesystem::path& folder, const std::string& name = "tokenizer") const;

 protected:
  explicit Tokenizer(SpecialTokens special) : special_(special) {}
  virtual std::vector<std::int32_t> encode_valid(std::string_view text) const = 0;  // text is valid UTF-8
  // All of a text's tokens but special ones, as encode_valid; then those that belong around one text or two.
  virtual Encoding tokenize_valid(std::string_view text) const = 0;
  virtual Encoding surround(std::vector<Encoding> texts, std::span<const std::string_view> originals, bool special_tokens) const;
  virtual std::unique_ptr<Detokenizer> detokenizer() const = 0;             // of ids that are all in range
  virtual std::string decode_all(std::span<const std::int32_t> ids) const;  // the same at once
  virtual std::string piece_of(std::int32_t id) const = 0;
  virtual bool has_no_text(std::int32_t) const { return false; }  // an id that decoding passes over

 private:
  friend class StreamDecoder;
  void check(std::int32_t id) const;
  Encoding tokenize_texts(std::span<const std::string_view> texts, bool special_tokens) const;
  SpecialTokens special_;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// Text out of ids as they are made, for people who watch:
//   StreamDecoder stream(tokenizer);
//   for (std::int32_t id : …) std::cout << stream.push(id) << std::flush;
//   std::cout << stream.finish();
// Never half a character, and nothing that a later token could change; all of it together is decode() of all ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(TokenizerPtr tokenizer, bool skip_special_tokens = true);

  std::string push(std::int32_t id);  // the text that has become certain, often none. Error for an id outside the vocabulary
  std::string finish();               // the rest; then the stream begins anew

 private:
  TokenizerPtr tokenizer_;
  bool skip_special_tokens_;
  std::unique_ptr<Detokenizer> detokenizer_;
};

// From a model's folder, the first of these that is there:
//   tokenizer.json                        Hugging Face's own format, with the special tokens of tokenizer_config.json
//   vocab.json and merges.txt             byte-level BPE (GPT-2, RoBERTa, BART)
//   source.spm, target.spm, vocab.json    Marian: the source's side (load_tokenizers has both)
//   spiece.model, tokenizer.model, …      SentencePiece; config.json or tokenizer_config.json tell the family's habits
//   vocab.txt                             WordPiece (BERT, DistilBERT), or the words of a whitespace tokenizer
// or from one of these files. Truncation and padding that a tokenizer.json asks for are left to the caller, and spaces are not
// tidied up after decoding (clean_up_tokenization_spaces). Error names the file and what in it is not supported.
TokenizerPtr load_tokenizer(const std::filesystem::path& path);
// From the text of a tokenizer.json.
TokenizerPtr parse_tokenizer(std::string_view text);

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
