#include "transformer/explain/plot.h"

#include <gtest/gtest.h>

#include <limits>

#include "explain/xml.h"
#include "transformer/core/error.h"

namespace transformer::test {
namespace {

SeriesPlot example() {
  return {.dates = {"2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"},
          .panels = {{.title = "<price> & 가격", .history = {1.0, 2.0, 4.0}, .forecast = {3.0, 5.0}},
                     {.title = "flat", .history = {0.0, 0.0, 0.0}, .forecast = {0.0, 0.0}}},
          .caption = "x.csv"};
}

}  // namespace

TEST(Plot, PanelsWithHistoryForecastAndAxes) {
  const std::string svg = series_svg(example());
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(count(svg, "<polyline"), 4U);
  EXPECT_EQ(count(svg, "&lt;price&gt; &amp; 가격"), 1U);
  EXPECT_EQ(count(svg, ">2024-01-01<"), 2U);
  EXPECT_EQ(count(svg, ">2024-01-05<"), 2U);
  for (const char* tick : {">1<", ">2<", ">3<", ">4<", ">5<", ">x.csv<", ">forecast<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(svg, series_svg(example()));
}

// The forecast's line begins at the last known value.
TEST(Plot, TheLinesMeet) {
  SeriesPlot plot = example();
  plot.panels.resize(1);
  const std::string svg = series_svg(plot);
  static const std::regex line(R"re(<polyline class="(\w+)" points="([^"]+)")re");
  std::string past, next;
  for (std::sregex_iterator it(svg.begin(), svg.end(), line), end; it != end; ++it) ((*it)[1] == "past" ? past : next) = (*it)[2];
  EXPECT_EQ(past.substr(past.rfind(' ') + 1), next.substr(0, next.find(' ')));
  EXPECT_EQ(count(past, ","), 3U);
  EXPECT_EQ(count(next, ","), 3U);
}

// Small differences of large values have their own height and marks.
TEST(Plot, MarksAreToldApart) {
  SeriesPlot plot = example();
  plot.panels.resize(1);
  plot.panels[0].history = {1e9 - 5, 1e9, 1e9 + 5}, plot.panels[0].forecast = {1e9, 1e9};
  std::string svg = series_svg(plot);
  for (const char* tick : {">999999996<", ">999999998<", ">1000000000<", ">1000000002<", ">1000000004<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick << "\n" << svg;
  plot.panels[0].history = {0.1, 0.1, 0.1}, plot.panels[0].forecast = {0.1, 0.1};
  svg = series_svg(plot);
  EXPECT_EQ(count(svg, ">0.1<"), 1U) << svg;
}

TEST(Plot, RowsAreNumberedWithoutDates) {
  SeriesPlot plot = example();
  plot.dates.clear();
  const std::string svg = series_svg(plot);
  for (const char* mark : {">-2<", ">0<", ">2<"}) EXPECT_NE(svg.find(mark), std::string::npos) << mark;
}

TEST(Plot, WhatCannotBeDrawnIsRefused) {
  SeriesPlot plot = example();
  plot.panels[1].forecast.pop_back();
  EXPECT_THROW(series_svg(plot), Error);
  plot = example();
  plot.dates.pop_back();
  EXPECT_THROW(series_svg(plot), Error);
  plot = example();
  plot.panels[0].history[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(series_svg(plot), Error);
  EXPECT_THROW(series_svg({}), Error);
  // Large and tiny values are fine.
  plot.panels[0].history = {1e290, -1e290, 0.0};
  EXPECT_EQ(fault_of(series_svg(plot)), "");
  plot.panels[0].history = {1e-300, 2e-300, 0.0}, plot.panels[0].forecast = {0.0, 0.0};
  EXPECT_EQ(fault_of(series_svg(plot)), "");
}

}  // namespace transformer::test
