#include "transformer/explain/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <regex>

#include "explain/xml.h"
#include "transformer/core/error.h"

namespace transformer::test {
namespace {

SeriesPlot plot_example() {
  return {.dates = {"2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"},
          .panels = {{.title = "<price> & 가격", .history = {1.0, 2.0, 4.0}, .forecast = {3.0, 5.0}},
                     {.title = "flat", .history = {0.0, 0.0, 0.0}, .forecast = {0.0, 0.0}}},
          .title = "x.csv"};
}

}  // namespace

TEST(Plot, PanelsWithHistoryForecastAndAxes) {
  const std::string svg = series_svg(plot_example());
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(count(svg, "<polyline"), 4U);
  EXPECT_EQ(count(svg, "&lt;price&gt; &amp; 가격"), 1U);
  EXPECT_EQ(count(svg, ">2024-01-01<"), 2U);
  EXPECT_EQ(count(svg, ">2024-01-05<"), 2U);
  for (const char* tick : {">1<", ">2<", ">3<", ">4<", ">5<", ">x.csv<", ">forecast<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick;
  EXPECT_EQ(svg, series_svg(plot_example()));
}

namespace {

// The numbers of the axis of a plot of one panel, from below: what is written at its left.
std::vector<std::string> axis_of(const std::string& svg) {
  static const std::regex number(R"re(text-anchor="end">(-?[0-9.e+-]+)<)re");
  std::vector<std::string> out;
  for (std::sregex_iterator it(svg.begin(), svg.end(), number), end; it != end; ++it) out.push_back((*it)[1]);
  return out;
}

std::vector<std::string> axis_of(std::vector<double> history, std::vector<double> forecast) {
  return axis_of(series_svg({.panels = {{.title = "x", .history = std::move(history), .forecast = std::move(forecast)}}}));
}

}  // namespace

TEST(Plot, TheTitleIsOnTop) {
  const std::string svg = series_svg(plot_example());
  static const std::regex text(R"re(<text x="[0-9.]+" y="([0-9.]+)"[^>]*>([^<]*)<)re");
  double title = 0.0, others = INFINITY;
  for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it) {
    const double y = std::stod((*it)[1]);
    if ((*it)[2] == "x.csv") title = y;
    else others = std::min(others, y);
  }
  EXPECT_GT(title, 0.0);
  EXPECT_LT(title, others);
  EXPECT_NE(svg.find(R"(aria-label="x.csv")"), std::string::npos);
}

TEST(Plot, MarksAreRoundNumbers) {
  using Marks = std::vector<std::string>;
  EXPECT_EQ(axis_of({0.0, 1.0}, {0.3}), (Marks{"0.00", "0.25", "0.50", "0.75", "1.00"}));
  EXPECT_EQ(axis_of({0.0, 10.0}, {3.0}), (Marks{"0.0", "2.5", "5.0", "7.5", "10.0"}));
  EXPECT_EQ(axis_of({-3.0, 5.0}, {3.0}), (Marks{"-2", "0", "2", "4"}));
  EXPECT_EQ(axis_of({0.0, 450.0}, {30.0}), (Marks{"0", "100", "200", "300", "400"}));
  EXPECT_EQ(axis_of({0.0, 1.9e-7}, {1e-7}), (Marks{"0.00000000", "0.00000005", "0.00000010", "0.00000015"}));
  EXPECT_EQ(axis_of({0.0, 1.9e-20}, {1e-20}), (Marks{"0", "5e-21", "1e-20", "1.5e-20"}));
  EXPECT_EQ(axis_of({0.0, 2e15}, {1e15}), (Marks{"0", "5e+14", "1e+15", "1.5e+15", "2e+15"}));
}

// What a model makes of a constant channel differs from it in its last digits, which are not what a reader wants to see.
TEST(Plot, AConstantChannelHasAnAxisOfItsSize) {
  using Marks = std::vector<std::string>;
  EXPECT_EQ(axis_of({5.0, 5.0, 5.0}, {5.0000003, 4.9999998}), (Marks{"4.50", "4.75", "5.00", "5.25", "5.50"}));
  EXPECT_EQ(axis_of({0.1 + 0.2, 0.3, 0.3}, {0.3}), (Marks{"0.28", "0.30", "0.32"}));
  EXPECT_EQ(axis_of({0.0, 0.0}, {1e-9}), (Marks{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
  EXPECT_EQ(axis_of({-2e6, -2e6}, {-2e6}), (Marks{"-2200000", "-2100000", "-2000000", "-1900000", "-1800000"}));
  // A forecast that leaves it is seen.
  EXPECT_EQ(axis_of({5.0, 5.0}, {5.0, 9.0}), (Marks{"5", "6", "7", "8", "9"}));
}

TEST(Plot, ABandLiesAroundTheForecast) {
  SeriesPlot plot = plot_example();
  plot.panels.resize(1);
  plot.panels[0].low = {2.0, 2.5}, plot.panels[0].high = {4.0, 20.0};
  plot.band = "10 to 90 %";
  const std::string svg = series_svg(plot);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_NE(svg.find(">10 to 90 %<"), std::string::npos);
  EXPECT_NE(svg.find(">20<"), std::string::npos) << "the band must be on the axis";
  static const std::regex shape(R"re(<(polyline|polygon) class="(\w+)" points="([^"]+)")re");
  std::map<std::string, std::string> points;
  for (std::sregex_iterator it(svg.begin(), svg.end(), shape), end; it != end; ++it) points[(*it)[2]] = (*it)[3];
  EXPECT_EQ(count(points["band"], ","), 6U);  // the last known value, there and back
  EXPECT_EQ(points["band"].substr(0, points["band"].find(' ')), points["next"].substr(0, points["next"].find(' ')));
  EXPECT_LT(svg.find("<polygon"), svg.find("<polyline")) << "lines are drawn over the band";
  plot.panels[0].low.pop_back();
  EXPECT_THROW(series_svg(plot), Error);
}

// The forecast's line begins at the last known value.
TEST(Plot, TheLinesMeet) {
  SeriesPlot plot = plot_example();
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
  SeriesPlot plot = plot_example();
  plot.panels.resize(1);
  plot.panels[0].history = {1e9 - 5, 1e9, 1e9 + 5}, plot.panels[0].forecast = {1e9, 1e9};
  std::string svg = series_svg(plot);
  for (const char* tick : {">999999995.0<", ">999999997.5<", ">1000000000.0<", ">1000000002.5<", ">1000000005.0<"})
    EXPECT_NE(svg.find(tick), std::string::npos) << tick << "\n" << svg;
  plot.panels[0].history = {0.1, 0.1, 0.1}, plot.panels[0].forecast = {0.1, 0.1};
  svg = series_svg(plot);
  EXPECT_EQ(count(svg, ">0.100<"), 1U) << svg;
}

TEST(Plot, LongDatesDoNotMeet) {
  SeriesPlot plot = plot_example();
  plot.panels.resize(1);
  EXPECT_EQ(count(series_svg(plot), ">2024-01-"), 5U);
  for (std::string& date : plot.dates) date += " 00:00:00";
  EXPECT_EQ(count(series_svg(plot), " 00:00:00<"), 4U);
}

TEST(Plot, RowsAreNumberedWithoutDates) {
  SeriesPlot plot = plot_example();
  plot.dates.clear();
  const std::string svg = series_svg(plot);
  for (const char* mark : {">-2<", ">0<", ">2<"}) EXPECT_NE(svg.find(mark), std::string::npos) << mark;
}

TEST(Plot, WhatCannotBeDrawnIsRefused) {
  SeriesPlot plot = plot_example();
  plot.panels[1].forecast.pop_back();
  EXPECT_THROW(series_svg(plot), Error);
  plot = plot_example();
  plot.dates.pop_back();
  EXPECT_THROW(series_svg(plot), Error);
  plot = plot_example();
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
