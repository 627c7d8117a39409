#pragma once
// The alphabet of byte-level tokenizers: a visible character for each byte, so that any text is made of 256 characters.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace transformer {

// The printable bytes of Latin-1 stand for themselves, the others for U+0100, U+0101, … in their order.
constexpr std::array<char32_t, 256> make_byte_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[byte] = printable ? byte : next++;
  }
  return alphabet;
}
inline constexpr std::array<char32_t, 256> byte_alphabet = make_byte_alphabet();

// The byte of a character of the alphabet, or -1.
constexpr std::array<std::int16_t, 512> make_alphabet_bytes() {
  std::array<std::int16_t, 512> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (std::int16_t byte = 0; byte < 256; ++byte) bytes[byte_alphabet[static_cast<std::size_t>(byte)]] = byte;
  return bytes;
}
inline constexpr std::array<std::int16_t, 512> alphabet_bytes = make_alphabet_bytes();
constexpr int byte_of(char32_t c) { return c < alphabet_bytes.size() ? alphabet_bytes[c] : -1; }

}  // namespace transformer
