#include "transformer/explain/picture.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "text/unicode.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr double font = 14.0, column = 0.61 * font;  // a monospace font; wide glyphs take two columns, and need less
constexpr double gap = 8.0, margin = 16.0;
constexpr std::int64_t longest_label = 40, longest_caption = 120;  // columns; longer ones end in …

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

struct Label {
  std::string full, shown;  // as XML
  double width = 0.0;       // of what is shown, in pixels
};

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

Label label_of(const std::string& utf8, std::int64_t longest = longest_label) {
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

std::vector<Label> labels_of(const std::vector<std::string>& texts) {
  std::vector<Label> labels;
  for (const std::string& text : texts) labels.push_back(label_of(text));
  return labels;
}

double widest(const std::vector<Label>& labels) {
  return std::max_element(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.width < b.width; })->width;
}

// Light and dark change the ink together with the paper under it, so that either can be read whatever page it lies on. A cell is
// ink of one colour, the more opaque the greater its value.
constexpr std::string_view style =
    "<style>\n"
    ".paper{fill:#fff}.ink{fill:#1a1a1a}.soft{fill:#5c5c5c}.cell{fill:#0b4f9e}.grid{fill:none;stroke:#d0d0d0}\n"
    "@media(prefers-color-scheme:dark){.paper{fill:#16181c}.ink{fill:#ececec}.soft{fill:#a8a8a8}.cell{fill:#8cc4ff}.grid{stroke:#3c4047}}\n"
    "text{font:14px ui-monospace,'DejaVu Sans Mono','Noto Sans Mono CJK KR',monospace}\n"
    "</style>\n";

class Drawing {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void text(double x, double y, const Label& label, std::string_view kind, std::string_view anchor, std::string_view more = "") {
    add(R"(<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}"{}>{}</text>)"
        "\n",
        x, y, kind, anchor, more, label.shown);
  }
  const std::string& all() const { return text_; }

 private:
  std::string text_;
};

void check(const AttentionPicture& p) {
  if (p.rows.empty() || p.columns.empty())
    fail("attention_svg", "there is nothing to draw: {} rows, {} columns", p.rows.size(), p.columns.size());
  if (p.values.size() != p.rows.size() * p.columns.size())
    fail("attention_svg", "{} values for {} rows and {} columns: expected {}", p.values.size(), p.rows.size(), p.columns.size(),
         p.rows.size() * p.columns.size());
  for (std::size_t i = 0; i < p.values.size(); ++i)
    if (!std::isfinite(p.values[i]))
      fail("attention_svg", "row {}, column {}: {} cannot be drawn", i / p.columns.size(), i % p.columns.size(), p.values[i]);
}

}  // namespace

std::string attention_svg(const AttentionPicture& picture) {
  check(picture);
  const std::vector<Label> rows = labels_of(picture.rows), columns = labels_of(picture.columns);
  const Label caption = label_of(picture.caption, longest_caption), row_title = label_of(picture.row_title),
              column_title = label_of(picture.column_title);
  const auto [least, greatest] = std::minmax_element(picture.values.begin(), picture.values.end());
  const double low = std::min(0.0, static_cast<double>(*least)), high = static_cast<double>(*greatest);
  const auto share = [&](double value) { return high > low ? (value - low) / (high - low) : 0.0; };

  // Column labels stand upright where they fit above their cells, and slant where they do not.
  const double cell = std::max(rows.size(), columns.size()) <= 48 ? 30.0 : 18.0;
  const bool slanted = widest(columns) > cell - 4.0;
  constexpr double slope = 0.7071;  // of 45 degrees
  const double rise = slanted ? widest(columns) * slope + font : font;
  const double titles = picture.row_title.empty() && picture.column_title.empty() ? 0.0 : font + gap;
  const double left = margin + std::max(widest(rows), row_title.width) + gap, top = margin + titles + rise + gap;
  const double wide = cell * static_cast<double>(columns.size()), high_px = cell * static_cast<double>(rows.size());
  const double right = left + wide, bottom = top + high_px;

  Drawing d;
  if (titles > 0.0) {
    d.text(left - gap, margin + font, row_title, "soft", "end");
    d.text(left, margin + font, column_title, "soft", "start");
  }
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const double x = left + cell * (static_cast<double>(j) + 0.5), y = top - gap;
    if (slanted) d.text(x, y, columns[j], "ink", "start", fmt::format(" transform=\"rotate(-45 {:.1f} {:.1f})\"", x, y));
    else d.text(x, y, columns[j], "ink", "middle");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = top + cell * static_cast<double>(i);
    d.text(left - gap, y + cell / 2 + font * 0.35, rows[i], "ink", "end");
    for (std::size_t j = 0; j < columns.size(); ++j) {
      const float value = picture.values[i * columns.size() + j];
      d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="cell" fill-opacity="{:.3f}">)",
            left + cell * static_cast<double>(j), y, cell, cell, share(static_cast<double>(value)));
      d.add("<title>{} → {}: {:.4g}</title></rect>\n", rows[i].full, columns[j].full, value);
    }
  }
  d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
        "\n",
        left, top, wide, high_px);

  // The scale: ten steps from low to high below the cells.
  const double scale_top = bottom + 2 * gap, step = 12.0;
  const Label from = label_of(fmt::format("{:.3g}", low)), to = label_of(fmt::format("{:.3g}", high));
  const double scale_left = left + from.width + gap, scale_right = scale_left + 11 * step;
  d.text(left, scale_top + font - 2, from, "soft", "start");
  for (int i = 0; i <= 10; ++i)
    d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="cell" fill-opacity="{:.1f}"/>)"
          "\n",
          scale_left + step * i, scale_top, step, step, 0.1 * i);
  d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
        "\n",
        scale_left, scale_top, 11 * step, step);
  d.text(scale_right + gap, scale_top + font - 2, to, "soft", "start");
  double height = scale_top + font + margin, width = std::max(right, scale_right + gap + to.width);
  width = std::max({width, left + column_title.width, margin + caption.width});
  if (slanted)  // a slanted label reaches beyond its column
    for (std::size_t j = 0; j < columns.size(); ++j)
      width = std::max(width, left + cell * (static_cast<double>(j) + 0.5) + columns[j].width * slope + font * slope);
  width += margin;
  if (!picture.caption.empty()) {
    height += font + gap;
    d.text(margin, height - margin, caption, "ink", "start");
  }

  const std::string title = picture.caption.empty() ? "attention" : caption.full;
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}">)"
      "\n{3}"
      R"(<rect width="{0:.0f}" height="{1:.0f}" rx="6" class="paper"/>)"
      "\n{4}</svg>\n",
      std::ceil(width), std::ceil(height), title, style, d.all());
}

}  // namespace transformer
