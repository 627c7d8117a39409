#include "io/shared/utf8.h"

#include <cstring>

namespace transformer {
namespace {

struct Sequence {
  std::size_t bytes;  // at least 1
  bool well_formed;   // otherwise `bytes` is the maximal subpart: the longest beginning of a well-formed sequence, or one byte
};

// The sequence at the beginning of text (not empty), by table 3-7 of the Unicode standard: the first byte gives the length
// and the range of the second byte, which excludes overlong forms, surrogates and what lies beyond U+10FFFF.
Sequence first_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i, low = 0x80, high = 0xBF)
    if (i == text.size() || byte(i) < low || byte(i) > high) return {i, false};
  return {length, true};
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    for (std::uint64_t eight; at + 8 <= text.size(); at += 8) {  // ASCII, eight bytes at a time
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080U) != 0) break;
    }
    if (at == text.size()) break;
    const Sequence sequence = first_sequence(text.substr(at));
    if (!sequence.well_formed) break;
    at += sequence.bytes;
  }
  return at;
}

std::size_t ill_formed_prefix(std::string_view text) { return first_sequence(text).bytes; }

std::string sanitize_utf8(std::string_view text, std::int64_t& replaced) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t valid = valid_utf8_prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append("\xEF\xBF\xBD");
    ++replaced;
    text.remove_prefix(first_sequence(text).bytes);
  }
}

}  // namespace transformer
