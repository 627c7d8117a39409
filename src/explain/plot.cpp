#include "transformer/explain/plot.h"

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using namespace svg;

constexpr double panel_width = 720.0, panel_height = 150.0;

void check(const SeriesPlot& plot) {
  if (plot.panels.empty()) fail("series_svg", "there is nothing to draw: no panels");
  const std::size_t past = plot.panels.front().history.size(), next = plot.panels.front().forecast.size();
  if (past + next < 2) fail("series_svg", "there is nothing to draw: {} values", past + next);
  if (!plot.dates.empty() && plot.dates.size() != past + next) fail("series_svg", "{} dates for {} values", plot.dates.size(), past + next);
  for (const SeriesPanel& panel : plot.panels) {
    if (panel.history.size() != past || panel.forecast.size() != next)
      fail("series_svg", "panel '{}' has {} and {} values, the first one {} and {}", panel.title, panel.history.size(),
           panel.forecast.size(), past, next);
    for (const auto* values : {&panel.history, &panel.forecast})
      if (!std::all_of(values->begin(), values->end(), [](double v) { return std::abs(v) < 1e300; }))
        fail("series_svg", "panel '{}' has a value that cannot be drawn", panel.title);
  }
}

// Where the axis has its marks: about four round numbers between low and high.
struct Ticks {
  double first = 0.0, step = 1.0;
  std::int64_t count = 0;

  Ticks(double low, double high) {
    const double raw = (high - low) / 4.0, power = std::pow(10.0, std::floor(std::log10(raw)));
    step = (raw / power < 1.5 ? 1.0 : raw / power < 3.5 ? 2.0 : raw / power < 7.5 ? 5.0 : 10.0) * power;
    first = std::ceil(low / step) * step;
    count = static_cast<std::int64_t>(std::floor((high - first) / step + 1e-9)) + 1;
  }
  // With as many digits as tell it from its neighbours.
  std::string text(std::int64_t i) const {
    const double largest = std::max(std::abs(at(0)), std::abs(at(count - 1)));
    const double digits = largest > 0.0 ? std::floor(std::log10(largest)) - std::floor(std::log10(step) + 1e-9) + 1.0 : 1.0;
    return fmt::format("{:.{}g}", at(i), static_cast<int>(std::clamp(digits, 6.0, 17.0)));
  }
  double at(std::int64_t i) const {
    const double value = first + step * static_cast<double>(i);
    return std::abs(value) < step * 1e-9 ? 0.0 : value;
  }
};

struct Range {
  double low = 0.0, high = 1.0;
};
// Of all values, with a little room, and of some height even where they are all the same.
Range range_of(const SeriesPanel& panel) {
  Range r{INFINITY, -INFINITY};
  for (const auto* values : {&panel.history, &panel.forecast})
    for (const double v : *values) r = {std::min(r.low, v), std::max(r.high, v)};
  const double largest = std::max(std::abs(r.low), std::abs(r.high));
  const double height = r.high - r.low;
  const double room = height > largest * 1e-12 ? height * 0.05 : largest > 0.0 ? largest * 1e-6 : 0.5;
  return {r.low - room, r.high + room};
}

class Plot {
 public:
  explicit Plot(const SeriesPlot& plot)
      : plot_(plot), past_(std::ssize(plot.panels.front().history)), all_(past_ + std::ssize(plot.panels.front().forecast)) {
    for (const SeriesPanel& panel : plot.panels) {
      const Range range = range_of(panel);
      const Ticks ticks(range.low, range.high);
      for (std::int64_t i = 0; i < ticks.count; ++i) left_ = std::max(left_, margin + label_of(ticks.text(i)).width + gap);
    }
  }

  std::string draw() {
    double top = margin;
    for (const SeriesPanel& panel : plot_.panels) {
      draw_panel(panel, top);
      top += panel_height + 3 * font + 3 * gap;
    }
    const double legend = std::max(left_, margin);
    drawing_.add(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="past"/>)"
                 "\n",
                 legend, legend + 24, top + font * 0.65);
    drawing_.text(legend + 32, top + font, label_of("history"), "soft", "start");
    drawing_.add(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="next"/>)"
                 "\n",
                 legend + 120, legend + 144, top + font * 0.65);
    drawing_.text(legend + 152, top + font, label_of("forecast"), "soft", "start");
    top += font + margin;
    const Label caption = label_of(plot_.caption, longest_caption);
    if (!plot_.caption.empty()) {
      drawing_.text(margin, top + font, caption, "ink", "start");
      top += font + margin;
    }
    return drawing_.document(std::max(left_ + panel_width + margin, caption.width + 2 * margin), top,
                             plot_.caption.empty() ? label_of("series") : caption);
  }

 private:
  double x(std::int64_t row) const { return left_ + panel_width * static_cast<double>(row) / static_cast<double>(all_ - 1); }

  void line(const char* kind, std::int64_t first_row, const std::vector<double>& values, auto&& y) {
    drawing_.add(R"(<polyline class="{}" points=")", kind);
    for (std::int64_t i = 0; i < std::ssize(values); ++i)
      drawing_.add("{}{:.1f},{:.1f}", i == 0 ? "" : " ", x(first_row + i), y(values[static_cast<std::size_t>(i)]));
    drawing_.add("\"/>\n");
  }

  void draw_panel(const SeriesPanel& panel, double top) {
    const double begin = top + font + gap, bottom = begin + panel_height, right = left_ + panel_width;
    const auto [low, high] = range_of(panel);
    const auto place = [&, low = low, high = high](double value) { return bottom - panel_height * ((value - low) / (high - low)); };
    drawing_.text(left_, top + font - 2, label_of(panel.title), "ink", "start");
    drawing_.add(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" class="grid"/>)"
                 "\n",
                 left_, begin, panel_width, panel_height);
    const Ticks ticks(low, high);
    for (std::int64_t i = 0; i < ticks.count; ++i) {
      const double at = place(ticks.at(i));
      drawing_.add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="grid"/>)"
                   "\n",
                   left_, at, right, at);
      drawing_.text(left_ - gap, at + font * 0.35, label_of(ticks.text(i)), "soft", "end");
    }
    constexpr std::int64_t marks = 4;
    for (std::int64_t i = 0; i <= marks; ++i) {
      const std::int64_t row = (all_ - 1) * i / marks;
      const std::string text = plot_.dates.empty() ? fmt::format("{}", row - past_ + 1) : plot_.dates[static_cast<std::size_t>(row)];
      drawing_.text(x(row), bottom + font + 2, label_of(text, 19), "soft",
                    i == 0           ? "start"
                        : i == marks ? "end"
                                     : "middle",
                    " style=\"font-size:11px\"");
    }
    if (past_ > 0 && past_ < all_)
      drawing_.add(R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="grid" stroke-dasharray="4 3"/>)"
                   "\n",
                   x(past_ - 1), begin, bottom);
    line("past", 0, panel.history, place);
    std::vector<double> next = panel.forecast;
    if (past_ > 0) next.insert(next.begin(), panel.history.back());  // the lines meet
    line("next", past_ > 0 ? past_ - 1 : 0, next, place);
  }

  const SeriesPlot& plot_;
  std::int64_t past_, all_;
  double left_ = margin;
  Drawing drawing_;
};

}  // namespace

std::string series_svg(const SeriesPlot& plot) {
  check(plot);
  return Plot(plot).draw();
}

}  // namespace transformer
