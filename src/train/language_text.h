#pragma once
// Text in memory on its way to tokens, and windows of tokens on their way to a batch.

#include "transformer/text/documents.h"
#include "transformer/train/language.h"

namespace transformer {

struct LoadedText {
  std::vector<DocumentPart> parts;
  std::int64_t replaced = 0;  // sequences of bytes that were not UTF-8
};
// Error when the files have no text.
LoadedText load_text(const std::vector<std::string>& files, Documents documents);
// Takes the last `share` of the characters away and gives them back. Error when either has none.
LoadedText split_text(LoadedText& text, double share);

TokenRow encode_text(const LoadedText& text, const Tokenizer& tokenizer, std::int32_t end, CorpusReport& report, int threads);

// Windows, one after the other, and what should follow each token.
struct WindowBatch {
  std::vector<std::int32_t> ids, targets;
  std::vector<std::int64_t> lengths;

  // Tokens begin … begin + size - 1 as input, and the ones behind them as targets. A new sequence begins before each `boundary`.
  void add(const TokenRow& row, std::int64_t begin, std::int64_t size, std::int32_t boundary);
  Tensor loss(Context& ctx, const TextModel& model) const;
};

}  // namespace transformer
