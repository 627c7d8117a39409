#include "io/shared/columns.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>

namespace transformer {

int columns_of(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  if ((U_GET_GC_MASK(code) & (U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CC_MASK | U_GC_CF_MASK)) != 0) return 0;
  const int width = u_getIntPropertyValue(code, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

int columns_of(std::string_view text) {
  int columns = 0;
  const auto size = static_cast<std::int32_t>(text.size());
  for (std::int32_t at = 0; at < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(text.data(), at, size, c);
    columns += columns_of(static_cast<char32_t>(c));
  }
  return columns;
}

std::string padded(std::string_view text, int columns, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, columns - columns_of(text))), ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

}  // namespace transformer
