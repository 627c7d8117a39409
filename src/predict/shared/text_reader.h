#pragma once
// Texts as an encoder reads them: tokenised with the special tokens of the model, cut to what it takes, in batches of similar
// length.

#include <filesystem>
#include <span>

#include "transformer/core/context.h"
#include "transformer/models/text.h"
#include "transformer/predict/text_report.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

class TextReader {
 public:
  // longest: tokens that a text may have; 0: any number.
  TextReader(TokenizerPtr tokenizer, std::int64_t longest, LongTexts long_texts = LongTexts::cut)
      : tokenizer_(std::move(tokenizer)), longest_(longest), long_texts_(long_texts) {}

  // Of a text that is too long and may be cut the end is left out, the special tokens behind it stay. A text without tokens is the model's
  // start or end token, where it has one.
  std::vector<Encoding> read(Context& ctx, std::span<const std::string> texts, TextReport* report) const;
  // Texts in pairs: second[i] belongs to texts[i]. Of two that are too long together the end of the longer one is left out first.
  std::vector<Encoding> read(Context& ctx, std::span<const std::string> texts, std::span<const std::string> second,
                             TextReport* report) const;

 private:
  bool cut(Encoding& encoding, std::size_t first) const;
  void fill(Encoding& encoding) const;

  TokenizerPtr tokenizer_;
  std::int64_t longest_;
  LongTexts long_texts_;
};

// Which of several texts has how many tokens, and that it may have `most`; for who refuses it.
[[noreturn]] void too_long(std::size_t text, std::size_t texts, std::size_t tokens, std::int64_t most);

// Indices of texts that are computed together: about this many tokens.
std::vector<std::vector<std::size_t>> text_batches(const std::vector<Encoding>& texts, std::int64_t batch_tokens);

// Those texts as a batch. types: the model is told which of two texts a token is of.
PackedTexts packed_texts(const std::vector<Encoding>& texts, const std::vector<std::size_t>& chosen, bool types = false);

// The tokenizer of a folder; Error that says what to do when there is none.
TokenizerPtr tokenizer_of(const std::filesystem::path& folder);
// The most tokens that the positions of a model take; 0: any number.
std::int64_t longest_text(const Model& model);

}  // namespace transformer
