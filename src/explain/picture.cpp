#include "transformer/explain/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using namespace svg;

std::vector<Text> labels_of(const std::vector<std::string>& texts) {
  std::vector<Text> labels;
  for (const std::string& text : texts) labels.push_back(label_of(text));
  return labels;
}

double widest(const std::vector<Text>& labels) {
  return std::max_element(labels.begin(), labels.end(), [](const Text& a, const Text& b) { return a.width < b.width; })->width;
}

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

std::string attention_svg(const AttentionPicture& picture, Theme theme) {
  check(picture);
  const std::vector<Text> rows = labels_of(picture.rows), columns = labels_of(picture.columns);
  const Text caption = label_of(picture.caption, longest_caption), row_title = label_of(picture.row_title),
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
    d.text(left + gap, margin + font, column_title, "soft", "start");
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
  const Text from = label_of(fmt::format("{:.3g}", low)), to = label_of(fmt::format("{:.3g}", high));
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
  width = std::max({width, left + gap + column_title.width, margin + caption.width});
  if (slanted)  // a slanted label reaches beyond its column
    for (std::size_t j = 0; j < columns.size(); ++j)
      width = std::max(width, left + cell * (static_cast<double>(j) + 0.5) + columns[j].width * slope + font * slope);
  width += margin;
  if (!picture.caption.empty()) {
    height += font + gap;
    d.text(margin, height - margin, caption, "ink", "start");
  }

  return d.document(width, height, picture.caption.empty() ? label_of("attention") : caption, theme);
}

}  // namespace transformer
