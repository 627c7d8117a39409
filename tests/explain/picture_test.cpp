#include "transformer/explain/picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "explain/xml.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

AttentionPicture attention_example() {
  return {.rows = {"나는", "학교에", "간다"},
          .columns = {"I", "go", "to", "school"},
          .values = {0.9F, 0.05F, 0.03F, 0.02F, 0.1F, 0.1F, 0.2F, 0.6F, 0.05F, 0.8F, 0.1F, 0.05F},
          .caption = "Cross-attention",
          .row_title = "Korean",
          .column_title = "English"};
}

double size_of(const std::string& svg, const std::string& name) {
  std::smatch match;
  return std::regex_search(svg, match, std::regex("<svg [^>]*\\b" + name + "=\"(\\d+)\"")) ? std::stod(match[1]) : 0.0;
}

TEST(Picture, HasACellAndATooltipForEveryValue) {
  const std::string svg = attention_svg(attention_example());
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(count(svg, "<title>"), 12u);
  EXPECT_NE(svg.find("<title>학교에 → school: 0.6</title>"), std::string::npos);
  EXPECT_NE(svg.find(">Cross-attention</text>"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_EQ(svg, attention_svg(attention_example())) << "the same picture must give the same text";
}

// The greatest value is opaque, 0 is not there, and what lies between is in proportion.
TEST(Picture, OpacityIsTheShareOfTheGreatestValue) {
  const std::string svg = attention_svg({.rows = {"a"}, .columns = {"x", "y", "z"}, .values = {0.0F, 0.2F, 0.4F}});
  for (const char* cell : {"fill-opacity=\"0.000\"><title>a → x: 0<", "fill-opacity=\"0.500\"><title>a → y: 0.2<",
                           "fill-opacity=\"1.000\"><title>a → z: 0.4<"})
    EXPECT_NE(svg.find(cell), std::string::npos) << cell;
  const std::string negative = attention_svg({.rows = {"a"}, .columns = {"x", "y"}, .values = {-1.0F, 3.0F}});
  EXPECT_NE(negative.find("fill-opacity=\"0.000\"><title>a → x: -1<"), std::string::npos);
  EXPECT_EQ(fault_of(attention_svg({.rows = {"a"}, .columns = {"x"}, .values = {0.0F}})), "");
}

TEST(Picture, HostileLabelsStayLabels) {
  AttentionPicture p = attention_example();
  p.rows = {"</text><script>alert(1)</script>", "a&b \"c\" 'd' ]]>", std::string("nul\0 \x01\x1b[31m", 11)};
  p.columns = {"\xff\xfe broken", "\xe2\x80\xae turned", "\xef\xbf\xbf", "two\nlines\t"};
  p.caption = "<!-- & -->";
  p.row_title = "\"><svg onload=\"x\">";
  const std::string svg = attention_svg(p);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_EQ(svg.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_EQ(count(svg, "<svg"), 1u);
  EXPECT_NE(svg.find("&lt;/text&gt;&lt;script&gt;"), std::string::npos);
  EXPECT_NE(svg.find("two lines"), std::string::npos);
}

TEST(Picture, SizeFollowsTheLabels) {
  const auto width = [](const std::string& row) {
    return size_of(attention_svg({.rows = {row}, .columns = {"x", "y", "z", "w", "v", "u", "t", "s"}, .values = std::vector<float>(8)}),
                   "width");
  };
  EXPECT_LT(width("ab"), width("abcdef"));
  EXPECT_EQ(width("학교"), width("abcd")) << "wide glyphs count double";
  EXPECT_EQ(width("e\xcc\x81"), width("e")) << "a mark takes no room";
  EXPECT_EQ(width(std::string(60, 'x')), width(std::string(500, 'x'))) << "long labels are cut";

  const auto height = [](const std::string& column) {
    return size_of(attention_svg({.rows = {"r"}, .columns = {column}, .values = {1.0F}}), "height");
  };
  EXPECT_LT(height("x"), height("Transformer")) << "a label that does not fit its column slants";
  const std::string cut = attention_svg({.rows = {std::string(500, 'x')}, .columns = {"y"}, .values = {1.0F}});
  EXPECT_NE(cut.find("x…</text>"), std::string::npos);
  EXPECT_NE(cut.find("<title>" + std::string(500, 'x') + " →"), std::string::npos) << "the tooltip has all of it";
}

TEST(Picture, RefusesWhatCannotBeDrawn) {
  AttentionPicture p = attention_example();
  p.values.pop_back();
  expect_error([&] { attention_svg(p); }, {"11 values", "3 rows and 4 columns", "expected 12"});
  p.values.push_back(std::numeric_limits<float>::quiet_NaN());
  expect_error([&] { attention_svg(p); }, {"row 2, column 3", "nan"});
  expect_error([&] { attention_svg({}); }, {"0 rows"});
}

}  // namespace
}  // namespace transformer::test
