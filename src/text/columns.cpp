#include "text/columns.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "text/unicode.h"

namespace transformer {

int columns_of(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  if ((U_GET_GC_MASK(code) & (U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CC_MASK | U_GC_CF_MASK)) != 0) return 0;
  const int width = u_getIntPropertyValue(code, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (const char32_t c : to_code_points(text)) columns += columns_of(c);
  return columns;
}

std::string padded(std::string_view text, int columns, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, columns - columns_of(text))), ' ');
  return right ? space + std::string(text) : std::string(text) + space;
}

}  // namespace transformer
