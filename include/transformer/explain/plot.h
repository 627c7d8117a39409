#pragma once
// Pictures of series: what was, and what is forecast.
//
//   SeriesPlot plot{.dates = {"2024-01-01", …}, .panels = {{.title = "price", .history = past, .forecast = next}}};
//   std::ofstream("next.svg") << series_svg(plot);

#include <string>
#include <vector>

#include "transformer/explain/theme.h"

namespace transformer {

struct SeriesPanel {
  std::string title = {};
  std::vector<double> history = {}, forecast = {};  // finite; the forecast begins where the history ends
  std::vector<double> low = {}, high = {};          // of the forecast's rows, the edges of a band around it; empty: there is none
  std::vector<double> shades = {};                  // of the history's rows, 0 or more: behind them, the darker the greater; may be empty
};

struct SeriesPlot {
  std::vector<std::string> dates = {};   // of the history and then of the forecast; empty: rows are numbered, the last known one 0
  std::vector<SeriesPanel> panels = {};  // one below the other, all of the same lengths
  std::string title = {};                // on top
  std::string band = {};                 // what the bands are, for the legend: "10 to 90 %"
};

// An SVG document of its own: a panel per channel, with labelled axes and a line where the forecast begins. Light or dark as the reader's
// system is. The same plot gives the same text. Error when lengths do not fit each other.
std::string series_svg(const SeriesPlot& plot, Theme theme = Theme::automatic);

}  // namespace transformer
