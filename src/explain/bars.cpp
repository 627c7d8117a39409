#include "transformer/explain/bars.h"

#include <algorithm>

#include "explain/svg.h"
#include "transformer/core/error.h"

namespace transformer {

std::string bars_svg(const BarPicture& picture, Theme theme) {
  using namespace svg;
  constexpr double longest = 420.0, line = 26.0, thick = 18.0;
  if (picture.labels.empty() || picture.labels.size() != picture.values.size())
    fail("bars_svg", "{} labels and {} values: expected one of each for every bar", picture.labels.size(), picture.values.size());
  for (const double v : picture.values)
    if (!(v >= 0.0 && v <= 1.0)) fail("bars_svg", "{} cannot be drawn: expected shares from 0 to 1", v);
  std::vector<Text> labels;
  double widest = 0.0;
  for (const std::string& text : picture.labels) widest = std::max(widest, labels.emplace_back(label_of(text)).width);
  const Text caption = label_of(picture.caption, longest_caption);
  const double greatest = std::max(*std::max_element(picture.values.begin(), picture.values.end()), 1e-12);
  const double left = margin + widest + gap, number = 8 * column;
  Drawing d;
  double top = margin;
  if (!picture.caption.empty()) {
    d.text(margin, top + font, caption, "ink", "start");
    top += font + 2 * gap;
  }
  for (std::size_t i = 0; i < labels.size(); ++i, top += line) {
    const double width = longest * picture.values[i] / greatest, baseline = top + thick / 2 + font * 0.35;
    d.text(left - gap, baseline, labels[i], "ink", "end");
    d.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" class="cell">)", left, top, std::max(width, 1.0), thick);
    d.add("<title>{}: {:.6g}</title></rect>\n", labels[i].full, picture.values[i]);
    d.text(left + width + gap, baseline, label_of(fmt::format("{:.2f} %", 100.0 * picture.values[i])), "soft", "start");
  }
  const double width = std::max(left + longest + gap + number, margin + caption.width) + margin;
  return d.document(width, top + margin - (line - thick), picture.caption.empty() ? label_of("probabilities") : caption, theme);
}

}  // namespace transformer
