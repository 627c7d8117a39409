#pragma once
// The characters of valid UTF-8, and the properties that tokenizers ask for, as the Unicode standard defines them.

#include <cstddef>
#include <string>
#include <string_view>

namespace transformer {

// Bytes of the character that begins with this byte.
constexpr std::size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
constexpr bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

char32_t next_character(std::string_view text, std::size_t& at);      // `at` moves behind it
char32_t previous_character(std::string_view text, std::size_t& at);  // `at` moves before it
void append_character(std::string& text, char32_t c);
std::size_t count_characters(std::string_view text);

constexpr bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_white_space(char32_t c);        // the property White_Space
bool is_word_character(char32_t c);     // letters, marks, decimal digits, connectors, joiners: \w of UTS 18
bool is_mark(char32_t c);               // \p{M}
bool is_nonspacing_mark(char32_t c);    // \p{Mn}
bool is_other_character(char32_t c);    // control, format, private use
bool is_ideograph(char32_t c);          // the blocks of Chinese characters that BERT sets apart
bool is_any_punctuation(char32_t c);    // \p{P}, and all of ASCII that is neither letter, digit, space nor control
std::u32string lower_case(char32_t c);  // one character alone: İ gives two, Σ is always σ

}  // namespace transformer
