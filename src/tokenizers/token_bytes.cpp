#include "tokenizers/shared/token_bytes.h"

#include <array>
#include <charconv>

#include "io/shared/utf8.h"
#include "tokenizers/byte_alphabet.h"

namespace transformer {
namespace {

// "<0x0A>" → the byte; "": it is no such piece.
std::string byte_piece(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return {};
  unsigned value = 0;
  const auto read = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  return read.ptr == piece.data() + 5 ? std::string(1, static_cast<char>(value)) : std::string();
}

// A piece of a byte-level vocabulary → its bytes; "": it is none.
std::string bytes_of_piece(const std::string& piece) {
  std::string bytes;
  for (std::size_t i = 0; i < piece.size();) {
    const auto first = static_cast<unsigned char>(piece[i]);
    char32_t c = first;
    std::size_t length = 1;
    if (first >= 0xC0 && first < 0xE0 && i + 1 < piece.size())
      c = ((first & 0x1FU) << 6U) | (static_cast<unsigned char>(piece[i + 1]) & 0x3FU), length = 2;
    else if (first >= 0x80) return {};
    const int byte = byte_of(c);
    if (byte < 0) return {};
    bytes += static_cast<char>(byte);
    i += length;
  }
  return bytes;
}

}  // namespace

std::vector<std::string> token_bytes(const Tokenizer& tokenizer) {
  std::vector<std::string> all(static_cast<std::size_t>(tokenizer.size()));
  // A token in the middle of a text is what it adds to one that stands before it.
  std::vector<std::int32_t> before = tokenizer.encode("a");
  const std::string shown = tokenizer.decode(before);
  before.push_back(0);
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_special(id) || id == tokenizer.unk()) continue;
    std::string& bytes = all[static_cast<std::size_t>(id)];
    const std::string piece = tokenizer.piece(id);
    before.back() = id;
    const std::string text = tokenizer.decode(before);
    if (text.starts_with(shown)) bytes = text.substr(shown.size());
    if (bytes.find(replacement) == std::string::npos || piece.find(replacement) != std::string::npos) continue;
    bytes = byte_piece(piece);  // a part of a character
    if (bytes.empty()) bytes = bytes_of_piece(piece);
  }
  return all;
}

}  // namespace transformer
