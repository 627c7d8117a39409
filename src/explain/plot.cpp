#include "transformer/explain/plot.h"

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using namespace svg;

constexpr double panel_width = 720.0, panel_height = 150.0, small = 11.0;  // small: the font of the dates
constexpr std::int64_t longest_date = 19;

void check(const SeriesPlot& plot) {
  if (plot.panels.empty()) fail("series_svg", "there is nothing to draw: no panels");
  const std::size_t past = plot.panels.front().history.size(), next = plot.panels.front().forecast.size();
  if (past + next < 2) fail("series_svg", "there is nothing to draw: {} values", past + next);
  if (!plot.dates.empty() && plot.dates.size() != past + next) fail("series_svg", "{} dates for {} values", plot.dates.size(), past + next);
  for (const SeriesPanel& panel : plot.panels) {
    if (panel.history.size() != past || panel.forecast.size() != next)
      fail("series_svg", "panel '{}' has {} and {} values, the first one {} and {}", panel.title, panel.history.size(),
           panel.forecast.size(), past, next);
    if (panel.low.size() != panel.high.size() || (!panel.low.empty() && panel.low.size() != next))
      fail("series_svg", "panel '{}' has a band of {} and {} values: expected {} or none", panel.title, panel.low.size(), panel.high.size(),
           next);
    if (!panel.shades.empty() && panel.shades.size() != past)
      fail("series_svg", "panel '{}' has {} shades for {} rows", panel.title, panel.shades.size(), past);
    for (const auto* values : {&panel.history, &panel.forecast, &panel.low, &panel.high, &panel.shades})
      if (!std::all_of(values->begin(), values->end(), [](double v) { return std::abs(v) < 1e300; }))
        fail("series_svg", "panel '{}' has a value that cannot be drawn", panel.title);
  }
}

struct Range {
  double low = INFINITY, high = -INFINITY;

  void take(const std::vector<double>& values) {
    for (const double v : values) low = std::min(low, v), high = std::max(high, v);
  }
  double height() const { return high - low; }
};

// What the axis shows: all values, and a little room. A history that is constant but for rounding has a tenth of its value to both sides
// at least, so that the last digits of its forecast are not all there is to see.
Range range_of(const SeriesPanel& panel) {
  Range known;
  known.take(panel.history.empty() ? panel.forecast : panel.history);
  constexpr double least = 1e-290;  // of what can be divided further
  if (const double level = std::max(std::abs(known.low), std::abs(known.high)); known.height() <= std::max(level * 1e-9, least)) {
    const double room = level > least ? level * 0.1 : 1.0;
    known = {known.low - room, known.high + room};
  }
  Range all = known;
  for (const auto* values : {&panel.forecast, &panel.low, &panel.high}) all.take(*values);
  const double room = all.height() * 0.05;
  return {all.low - room, all.high + room};
}

// Where an axis has its marks: about five numbers from low to high that are multiples of 1, 2, 2.5 or 5 times a power of ten.
struct Ticks {
  double first = 0.0, step = 1.0;
  std::int64_t count = 0;

  Ticks(double low, double high, bool integers = false) {
    const double raw = (high - low) / 4.0, power = std::pow(10.0, std::floor(std::log10(raw))), digits = raw / power;
    const double round = digits < 1.42 ? 1.0 : digits < 2.24 ? 2.0 : digits < 3.54 ? 2.5 : digits < 7.08 ? 5.0 : 10.0;  // by its ratio
    step = round * power;
    if (integers && step < 3.0) step = step < 1.5 ? 1.0 : 2.0;
    first = std::ceil(low / step - 1e-9) * step;
    count = static_cast<std::int64_t>(std::floor((high - first) / step + 1e-9)) + 1;
  }
  double at(std::int64_t i) const {
    const double value = first + step * static_cast<double>(i);
    return std::abs(value) < step * 1e-9 ? 0.0 : value;
  }
  // All with the decimals that the step has; with an exponent where that would be long.
  std::string text(std::int64_t i) const {
    const double largest = std::max(std::abs(at(0)), std::abs(at(count - 1)));
    int decimals = static_cast<int>(-std::floor(std::log10(step) + 1e-9));
    if (const double last = step * std::pow(10.0, decimals); std::abs(last - std::round(last)) > 1e-6) ++decimals;  // 2.5
    if (largest < 1e12 && decimals <= 9) return fmt::format("{:.{}f}", at(i), std::max(decimals, 0));
    const double whole = largest > 0.0 ? std::floor(std::log10(largest)) + 1.0 : 1.0;
    return fmt::format("{:.{}g}", at(i), static_cast<int>(std::clamp(whole + decimals, 1.0, 17.0)));
  }
};

class Plot {
 public:
  Plot(const SeriesPlot& plot, Theme theme)
      : plot_(plot), theme_(theme), past_(std::ssize(plot.panels.front().history)), all_(past_ + std::ssize(plot.panels.front().forecast)) {
    for (const SeriesPanel& panel : plot.panels) {
      const Range range = range_of(panel);
      const Ticks ticks(range.low, range.high);
      for (std::int64_t i = 0; i < ticks.count; ++i) left_ = std::max(left_, margin + label_of(ticks.text(i)).width + gap);
    }
  }

  std::string draw() {
    const Text title = label_of(plot_.title, longest_caption);
    double top = margin;
    if (!plot_.title.empty()) {
      drawing_.text(left_, top + font, title, "ink", "start", " style=\"font-weight:bold\"");
      top += font + 1.5 * gap;
    }
    draw_legend(top);
    top += font + 2 * gap;
    for (const SeriesPanel& panel : plot_.panels) {
      draw_panel(panel, top);
      top += panel_height + 3 * font + 3 * gap;
    }
    return drawing_.document(left_ + std::max(panel_width, title.width) + margin, top - font,
                             plot_.title.empty() ? label_of("series") : title, theme_);
  }

 private:
  double x(std::int64_t row) const { return left_ + panel_width * static_cast<double>(row) / static_cast<double>(all_ - 1); }

  void draw_legend(double top) {
    double at = left_;
    const double middle = top + font * 0.65;
    const auto entry = [&](const std::string& text, const char* kind) {
      if (std::string_view(kind) == "band")
        drawing_.add(R"(<rect x="{:.1f}" y="{:.1f}" width="24" height="10" class="band"/>)"
                     "\n",
                     at, middle - 5);
      else
        drawing_.add(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="{3}"/>)"
                     "\n",
                     at, at + 24, middle, kind);
      const Text label = label_of(text);
      drawing_.text(at + 32, top + font, label, "soft", "start");
      at += 32 + label.width + 3 * gap;
    };
    entry("history", "past");
    entry("forecast", "next");
    if (!plot_.band.empty()) entry(plot_.band, "band");
  }

  // The points of a line that begins in this row.
  std::string points(std::int64_t row, const std::vector<double>& values, auto&& y) const {
    std::string out;
    for (std::int64_t i = 0; i < std::ssize(values); ++i)
      out += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "" : " ", x(row + i), y(values[static_cast<std::size_t>(i)]));
    return out;
  }

  // The dates, or numbers, of the rows.
  void draw_rows(double bottom) {
    const auto mark = [&](std::int64_t row, const std::string& text) {
      drawing_.text(x(row), bottom + font + 2, label_of(text, longest_date), "soft",
                    row == 0              ? "start"
                        : row == all_ - 1 ? "end"
                                          : "middle",
                    fmt::format(" style=\"font-size:{}px\"", small));
    };
    if (plot_.dates.empty()) {
      const Ticks ticks(static_cast<double>(1 - past_), static_cast<double>(all_ - past_), true);
      for (std::int64_t i = 0; i < ticks.count; ++i) {
        const auto number = static_cast<std::int64_t>(std::llround(ticks.at(i)));
        mark(number + past_ - 1, fmt::format("{}", number));
      }
      return;
    }
    // The first and the last stand inside the panel, the others around their rows: from one to the next there is room for one and a half.
    const double width = label_of(plot_.dates.front(), longest_date).width * small / font;
    const auto marks = std::clamp<std::int64_t>(static_cast<std::int64_t>(panel_width / (1.5 * width + gap)), 1,
                                                std::min<std::int64_t>(4, all_ - 1));
    for (std::int64_t i = 0; i <= marks; ++i) {
      const std::int64_t row = (all_ - 1) * i / marks;
      mark(row, plot_.dates[static_cast<std::size_t>(row)]);
    }
  }

  void draw_shades(const std::vector<double>& shades, double top) {
    const double greatest = shades.empty() ? 0.0 : *std::max_element(shades.begin(), shades.end());
    for (std::int64_t row = 0; greatest > 0.0 && row < std::ssize(shades); ++row) {
      const double value = shades[static_cast<std::size_t>(row)], half = panel_width / static_cast<double>(all_ - 1) / 2;
      const double from = std::max(x(row) - half, left_), to = std::min(x(row) + half, left_ + panel_width);
      drawing_.add(R"(<rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" class="cell" fill-opacity="{:.3f}">)", from, top,
                   to - from, panel_height, 0.55 * std::max(value, 0.0) / greatest);
      drawing_.add("<title>{:.4g}</title></rect>\n", value);
    }
  }

  void draw_panel(const SeriesPanel& panel, double top) {
    const double begin = top + font + gap, bottom = begin + panel_height, right = left_ + panel_width;
    const auto [low, high] = range_of(panel);
    const auto place = [&, low = low, high = high](double value) { return bottom - panel_height * ((value - low) / (high - low)); };
    drawing_.text(left_, top + font - 2, label_of(panel.title), "ink", "start");
    drawing_.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
                 "\n",
                 left_, begin, panel_width, panel_height);
    draw_shades(panel.shades, begin);
    const Ticks ticks(low, high);
    for (std::int64_t i = 0; i < ticks.count; ++i) {
      const double at = place(ticks.at(i));
      drawing_.add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="grid"/>)"
                   "\n",
                   left_, at, right, at);
      drawing_.text(left_ - gap, at + font * 0.35, label_of(ticks.text(i)), "soft", "end");
    }
    draw_rows(bottom);
    if (past_ > 0 && past_ < all_)
      drawing_.add(R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="grid" stroke-dasharray="4 3"/>)"
                   "\n",
                   x(past_ - 1), begin, bottom);
    // The forecast and its band begin at the last known value.
    const std::int64_t first = past_ > 0 ? past_ - 1 : 0;
    const auto joined = [&](std::vector<double> values) {
      if (past_ > 0) values.insert(values.begin(), panel.history.back());
      return values;
    };
    if (!panel.low.empty()) {
      const std::vector<double> lower = joined(panel.low), upper = joined(panel.high);
      drawing_.add(R"(<polygon class="band" points="{})", points(first, upper, place));
      for (std::int64_t i = std::ssize(lower) - 1; i >= 0; --i)
        drawing_.add(" {:.1f},{:.1f}", x(first + i), place(lower[static_cast<std::size_t>(i)]));
      drawing_.add("\"/>\n");
    }
    const auto line = [&](const char* kind, const std::string& at) {
      drawing_.add(R"(<polyline class="{}" points="{}"/>)"
                   "\n",
                   kind, at);
    };
    line("past", points(0, panel.history, place));
    line("next", points(first, joined(panel.forecast), place));
  }

  const SeriesPlot& plot_;
  Theme theme_;
  std::int64_t past_, all_;
  double left_ = margin;
  Drawing drawing_;
};

}  // namespace

std::string series_svg(const SeriesPlot& plot, Theme theme) {
  check(plot);
  return Plot(plot, theme).draw();
}

}  // namespace transformer
