#include "io/shared/characters.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>

#include "io/shared/unicode.h"

namespace transformer {
namespace {
bool in_category(char32_t c, std::uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }
}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  if (bytes[at] < 0x80) return bytes[at++];
  UChar32 c = 0;
  U8_NEXT_OR_FFFD(bytes, at, text.size(), c);
  return static_cast<char32_t>(c);
}

char32_t previous_character(std::string_view text, std::size_t& at) {
  while (--at > 0 && continues_character(text[at])) {
  }
  std::size_t begin = at;
  return next_character(text, begin);
}

void append_character(std::string& text, char32_t c) {
  std::uint8_t bytes[U8_MAX_LENGTH];
  std::size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, c);
  text.append(reinterpret_cast<const char*>(bytes), size);
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) { return !continues_character(byte); }));
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool is_word_character(char32_t c) {
  return in_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) != 0 ||
      u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_JOIN_CONTROL) != 0;
}

bool is_mark(char32_t c) { return in_category(c, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t c) { return in_category(c, U_GC_MN_MASK); }
bool is_other_character(char32_t c) { return in_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK); }

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
      (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_any_punctuation(char32_t c) {
  if (c < 0x80) return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return is_punctuation(c);
}

std::u32string lower_case(char32_t c) {
  if (c == 0x130) return {U'i', 0x307};  // the one character whose lower case is longer
  return {static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)))};
}

}  // namespace transformer
