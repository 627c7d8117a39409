#include "explain/svg.h"

#include <unicode/uchar.h>

#include <cmath>

#include "io/shared/unicode.h"

namespace transformer::svg {
namespace {

bool is_wide(char32_t c) {
  const int width = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH;
}
bool is_mark(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & (U_GC_MN_MASK | U_GC_ME_MASK)) != 0; }
std::int64_t width_of(char32_t c) { return is_mark(c) ? 0 : is_wide(c) ? 2 : 1; }

// Characters that XML 1.0 does not allow, and those that would turn the direction of what follows.
bool is_unfit(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xFFFE || c == 0xFFFF || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
}

std::string escaped(std::u32string_view text) {
  std::string out;
  for (const char c : to_utf8(text)) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

// Light and dark change the ink together with the paper under it, so that either can be read whatever page it lies on. A cell is
// ink of one colour, the more opaque the greater its value; a cold one is below 0.
constexpr std::string_view light =
    ".paper{fill:#fff}.ink{fill:#1a1a1a}.soft{fill:#5c5c5c}.cell{fill:#0b4f9e}.cold{fill:#b4430c}.grid{fill:none;stroke:#d0d0d0}\n"
    ".past{stroke:#1a1a1a}.next{stroke:#c2410c}.band{fill:#c2410c}.onto{fill:#fff}\n"
    ".wave0{stroke:#0b4f9e}.wave1{stroke:#c2410c}.wave2{stroke:#15803d}.wave3{stroke:#7e22ce}\n";
constexpr std::string_view dark =
    ".paper{fill:#16181c}.ink{fill:#ececec}.soft{fill:#a8a8a8}.cell{fill:#8cc4ff}.cold{fill:#ff9d5c}.grid{fill:none;stroke:#3c4047}\n"
    ".past{stroke:#ececec}.next{stroke:#ff9d5c}.band{fill:#ff9d5c}.onto{fill:#16181c}\n"
    ".wave0{stroke:#8cc4ff}.wave1{stroke:#ff9d5c}.wave2{stroke:#6ee7a0}.wave3{stroke:#d8b4fe}\n";
constexpr std::string_view both =
    "polyline{fill:none;stroke-width:1.6}.past{stroke-width:1.3}.next{stroke-width:1.8}.band{fill-opacity:.2}\n"
    "text{font:14px ui-monospace,'DejaVu Sans Mono','Noto Sans Mono CJK KR','NanumGothicCoding',monospace}.small{font-size:11px}\n";

std::string style_of(Theme theme) {
  const std::string dark_too = theme == Theme::automatic ? fmt::format("@media(prefers-color-scheme:dark){{{}}}\n", dark) : "";
  return fmt::format("<style>\n{}{}{}</style>\n", theme == Theme::dark ? dark : light, dark_too, both);
}

}  // namespace

Text label_of(const std::string& utf8, std::int64_t longest) {
  std::u32string text = to_code_points(utf8), shown;
  for (char32_t& c : text) c = is_space(c) ? U' ' : is_unfit(c) ? U'\uFFFD' : c;
  std::int64_t columns = 0;
  for (const char32_t c : text) columns += width_of(c);
  if (columns <= longest) {
    shown = text;
  } else {
    columns = 1;
    for (const char32_t c : text) {
      if (columns + width_of(c) > longest) break;
      columns += width_of(c);
      shown += c;
    }
    shown += U'…';
  }
  return {escaped(text), escaped(shown), static_cast<double>(columns) * column};
}

void Drawing::text(double x, double y, const Text& label, std::string_view kind, std::string_view anchor, std::string_view more) {
  add(R"(<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}"{}>{}</text>)"
      "\n",
      x, y, kind, anchor, more, label.shown);
}

std::string Drawing::document(double width, double height, const Text& title, Theme theme) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}">)"
      "\n{3}"
      R"(<rect width="{0:.0f}" height="{1:.0f}" rx="6" class="paper"/>)"
      "\n{4}</svg>\n",
      std::ceil(width), std::ceil(height), title.full, style_of(theme), text_);
}

}  // namespace transformer::svg
