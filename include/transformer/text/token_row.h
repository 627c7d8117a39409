#pragma once
// A long row of tokens, such as a corpus to train a language model on: in memory, or in a file that is mapped, so that it takes no
// memory of its own whatever its size.
//
//   TokenFileWriter file("corpus.bin", *tokenizer);
//   for (…) file.add(tokenizer->encode(text), text.size());
//   file.finish();
//
//   TokenRow row = TokenRow::open("corpus.bin", *tokenizer);
//   std::vector<std::int32_t> window(256);
//   row.read(1'000'000, window);
//
// The file: 64 bytes (the magic TRTOKENS, then version and bytes of an id as 32 bits, size and fingerprint of the vocabulary as 64
// bits, zeros), the ids in 2 or 4 bytes each, and 32 bytes at the end (number of tokens, bytes of their text, a hash of the ids, each
// in 64 bits, and the magic TOKENEND). All numbers are little-endian.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

class TokenRow {
 public:
  TokenRow() = default;  // no tokens
  // In memory. text_bytes: of the text that they are.
  TokenRow(std::vector<std::int32_t> ids, std::int64_t text_bytes);
  // Maps a file that TokenFileWriter wrote. Error names the file when it is none, is cut off, or was made with another vocabulary.
  static TokenRow open(const std::filesystem::path& path, const Tokenizer& tokenizer);

  std::int64_t size() const { return end_ - begin_; }
  std::int64_t text_bytes() const { return text_bytes_; }
  std::uint64_t fingerprint() const { return fingerprint_; }  // of the ids

  // Tokens begin, begin + 1, … as many as out has. Error when a damaged file has ids that are not in the vocabulary.
  void read(std::int64_t begin, std::span<std::int32_t> out) const;
  // Tokens begin … end - 1, from the same memory. Of the text's bytes they have their share by number.
  TokenRow part(std::int64_t begin, std::int64_t end) const;

 private:
  std::shared_ptr<const std::byte> ids_;
  int width_ = 4;  // bytes of an id
  std::int64_t begin_ = 0, end_ = 0, text_bytes_ = 0, vocabulary_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::string name_ = "tokens";
};

// Writes such a file, with little memory. It appears under its name when it is finished, as a whole.
class TokenFileWriter {
 public:
  TokenFileWriter(const std::filesystem::path& path, const Tokenizer& tokenizer);
  ~TokenFileWriter();

  void add(std::span<const std::int32_t> ids, std::int64_t text_bytes);  // Error for an id outside the vocabulary
  void finish();                                                         // nothing is added after this
  std::int64_t size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace transformer
