#include "io/shared/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <cstdint>

#include "transformer/core/error.h"

namespace transformer {

std::u32string to_code_points(std::string_view utf8) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(utf8.data());
  std::u32string out;
  out.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size();) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes, i, utf8.size(), c);
    out.push_back(static_cast<char32_t>(c));
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    std::uint8_t bytes[U8_MAX_LENGTH];
    std::size_t size = 0;
    U8_APPEND_UNSAFE(bytes, size, c);
    out.append(reinterpret_cast<const char*>(bytes), size);
  }
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_Z_MASK) != 0;
}

bool is_punctuation(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK) != 0; }
bool is_symbol(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_S_MASK) != 0; }
bool is_number(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0; }

std::u32string to_lower(std::u32string_view text) {
  const auto* code_points = reinterpret_cast<const UChar32*>(text.data());
  icu::UnicodeString lower = icu::UnicodeString::fromUTF32(code_points, static_cast<std::int32_t>(text.size()));
  lower.toLower(icu::Locale::getRoot());
  std::u32string out(static_cast<std::size_t>(lower.countChar32()), U'\0');
  UErrorCode status = U_ZERO_ERROR;
  lower.toUTF32(reinterpret_cast<UChar32*>(out.data()), static_cast<std::int32_t>(out.size()), status);
  if (U_FAILURE(status) != 0) fail("lower-casing", "{}", u_errorName(status));
  return out;
}

std::vector<std::u32string_view> split_words(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > i) words.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return words;
}

std::u32string_view without_trailing_space(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace transformer
