#include "transformer/explain/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "explain/xml.h"
#include "support/golden.h"
#include "transformer/core/error.h"
#include "transformer/explain/bars.h"
#include "transformer/explain/explainer.h"
#include "transformer/explain/picture.h"
#include "transformer/explain/worked_example.h"

namespace transformer::test {
namespace {

Explanation look_at(Context& ctx, const char* family, const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& target = {}) {
  Explanation seen = Explainer::load(ctx, golden_root() / family).tokens(ctx, ids, {.target_ids = target});
  const std::vector<std::string> words = {"나는", "학교에", "간다", "<script>", "& more"};
  for (SeenSide& side : seen.sides)
    for (std::size_t i = 0; i < side.tokens.size(); ++i) side.tokens[i].text = words[i % words.size()];
  return seen;
}

// The attribute of the first element of this class.
double attribute(const std::string& svg, const std::string& kind, const std::string& name) {
  std::smatch match;
  const std::regex element("<\\w+ [^>]*\\b" + name + "=\"([0-9.]+)\"[^>]*class=\"" + kind + "\"");
  return std::regex_search(svg, match, element) ? std::stod(match[1]) : NAN;
}

}  // namespace

TEST(Report, EveryPictureIsADocument) {
  Context ctx;
  const Explanation text = look_at(ctx, "llama", {1, 5, 9, 2, 7}), pair = look_at(ctx, "marian", {1, 5, 9}, {2, 7});
  for (const Theme theme : {Theme::automatic, Theme::light, Theme::dark})
    for (const View view : {View::attention, View::matrix, View::rollout, View::next, View::example})
      for (const Explanation* seen : {&text, &pair}) {
        const PictureOptions options{.map = {.attention = view == View::rollout ? seen->attentions.front().name : "", .head = -1},
                                     .theme = theme};
        const std::string svg = picture_of(*seen, view, options);
        EXPECT_EQ(fault_of(svg), "");
        EXPECT_EQ(svg.find("<script"), std::string::npos);
        EXPECT_EQ(count(svg, "prefers-color-scheme"), theme == Theme::automatic ? 1U : 0U);
      }
  EXPECT_NE(picture_of(pair, View::attention).find("cross-attention, layer 0, head 0"), std::string::npos);
  EXPECT_NE(picture_of(text, View::attention).find("masked self-attention"), std::string::npos);
  EXPECT_THROW(picture_of(pair, View::rollout, {.map = {.attention = "cross"}}), Error);
}

// The numbers of a picture's tooltips are those of the map.
TEST(Report, AMapsCellsAreItsNumbers) {
  Context ctx;
  const Explanation seen = look_at(ctx, "gpt2", {1, 5, 9, 2});
  const MapChoice choice{.layer = 1, .head = 3};
  const std::string svg = picture_of(seen, View::attention, {.map = choice});
  static const std::regex cell(R"re(<title>[^<]* → [^<]*: ([-0-9.e]+)</title>)re");
  std::vector<std::string> shown;
  for (std::sregex_iterator it(svg.begin(), svg.end(), cell), end; it != end; ++it) shown.push_back((*it)[1]);
  const std::vector<float> values = seen.map(choice);
  ASSERT_EQ(shown.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(shown[i], fmt::format("{:.4g}", values[i]));
}

TEST(Report, TheHtmlFileNeedsNoOther) {
  Context ctx;
  const Explanation seen = look_at(ctx, "bart", {1, 5, 9}, {2, 7});
  PictureOptions options{.title = "나는 <b>학교에</b> 간다"};
  options.positions = positions_of(ctx, *load_model(ctx, golden_root() / "bart"), 20);
  const std::string html = report_html(seen, options);
  const std::string elsewhere = std::regex_replace(html, std::regex("xmlns=\"http://www.w3.org/2000/svg\""), "");
  for (const char* part : {"http:", "https:", "<script", "<link", "src=", "@import", "url(", "<b>"})
    EXPECT_EQ(elsewhere.find(part), std::string::npos) << part;
  for (const char* part : {"<!doctype html>", "나는 &lt;b&gt;학교에", "Step by step", "Positions", "prefers-color-scheme"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
  options.theme = Theme::dark;
  EXPECT_EQ(report_html(seen, options).find("prefers-color-scheme"), std::string::npos);
}

// Hangul takes two columns: a label ends in front of the picture, and begins behind the edge of the paper.
TEST(Report, KoreanLabelsStayBesideThePicture) {
  const std::string label = "고양이가쥐를잡았다";
  const std::string svg = attention_svg(
      {.rows = {label, "쥐"}, .columns = {label, "쥐"}, .values = {1, 0, 0, 1}, .row_title = "글 ↓", .column_title = "글 →"});
  const double grid = attribute(svg, "grid", "x"), top = attribute(svg, "grid", "y");
  static const std::regex text(R"re(<text x="([0-9.]+)" y="([0-9.]+)" class="ink" text-anchor="(\w+)"[^>]*>([^<]*)<)re");
  int labels = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), text), end; it != end; ++it, ++labels) {
    const double x = std::stod((*it)[1]), y = std::stod((*it)[2]), width = static_cast<double>((*it)[4].length()) / 3 * 2 * 0.61 * 14;
    if ((*it)[3] == "end") {
      EXPECT_LT(x, grid) << (*it)[4];
      EXPECT_GE(x - width, 0.0) << (*it)[4];
    } else {
      EXPECT_LT(y, top) << (*it)[4];
      EXPECT_GE(y - width * 0.7072 - 14, 0.0) << (*it)[4] << ", slanted";
    }
  }
  EXPECT_EQ(labels, 4);
}

TEST(Report, PositionsAreTheFormula) {
  Context ctx;
  const PositionTable table = sinusoidal_positions(ctx, 100, 128);
  EXPECT_EQ(table.rows, 100);
  const PositionTable small = sinusoidal_positions(ctx, 2, 4);
  for (const auto& [column, want] : {std::pair{0, 0.8415}, {1, 0.5403}, {2, 0.0100}, {3, 0.99995}})
    EXPECT_NEAR(small.at(1, column), want, 5e-5);
  for (const std::string& svg : {positions_svg(table), waves_svg(table, {0, 10, 50, 100}), waves_svg(table)}) EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(count(waves_svg(table, {0, 10, 50, 100, 500}), "<polyline"), 4U) << "there is no dimension 500";
  EXPECT_THROW(waves_svg(table, {200}), Error);
  // Of every kind of model: what is added, turned by, or added to the scores.
  for (const auto& [family, kind] :
       {std::pair{"gpt2", "learned"}, {"llama", "rotary"}, {"t5", "relative"}, {"marian", "sinusoidal"}, {"vit", "learned"}}) {
    const PositionTable own = positions_of(ctx, *load_model(ctx, golden_root() / family), 8);
    EXPECT_EQ(own.kind, kind) << family;
    EXPECT_EQ(fault_of(positions_svg(own)), "") << family;
  }
  const PositionTable turned = positions_of(ctx, *load_model(ctx, golden_root() / "llama"), 3);
  EXPECT_NEAR(turned.at(2, 0), std::cos(2.0), 1e-5);
}

TEST(Report, BarsAreShares) {
  const std::string svg = bars_svg({.labels = {"학교에", "<b>"}, .values = {0.5, 0.25}, .caption = "나는"});
  EXPECT_EQ(fault_of(svg), "");
  for (const char* part : {"50.00 %", "25.00 %", "&lt;b&gt;", "width=\"420.0\"", "width=\"210.0\""})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_THROW(bars_svg({.labels = {"a"}, .values = {2.0}}), Error);
  EXPECT_THROW(bars_svg({}), Error);
}

TEST(Report, PngIsThePicture) {
  const std::string svg = attention_svg({.rows = {"나"}, .columns = {"a", "b"}, .values = {0.0F, 1.0F}}, Theme::light);
  std::string png;
  try {
    png = svg_to_png(svg, 2.0);
  } catch (const Error& e) {
    if (std::string(e.what()).find("librsvg2-2") == std::string::npos) throw;
    GTEST_SKIP() << e.what();
  }
  const Image image = decode_image(png, "picture");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, std::regex("width=\"(\\d+)\" height=\"(\\d+)\"")));
  EXPECT_EQ(image.width, 2 * std::stoll(match[1]));
  EXPECT_EQ(image.height, 2 * std::stoll(match[2]));
  const auto middle = [&](int column) {  // of a cell, its red
    const double x = 2 * (attribute(svg, "grid", "x") + 30 * (column + 0.5)), y = 2 * (attribute(svg, "grid", "y") + 15);
    return image.at(static_cast<std::int64_t>(y), static_cast<std::int64_t>(x), 0);
  };
  EXPECT_EQ(middle(0), 255);
  EXPECT_LT(middle(1), 40);
  EXPECT_THROW(svg_to_png("this is no picture"), Error);
}

TEST(Report, TheWorkedExampleOfTheTexts) {
  // QKᵀ = [1 1 2; 1 1 0; 2 0 1], scaled by 1/2.
  Context ctx;
  const std::vector<float> q = {1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0, 0}, k = {1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0},
                           v = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<float> qkv;
  for (int row = 0; row < 3; ++row)
    for (const auto* part : {&q, &k, &v}) qkv.insert(qkv.end(), part->begin() + 4 * row, part->begin() + 4 * row + 4);
  Explanation seen{.sides = {{"text", {{.text = "나는"}, {.text = "학교에"}, {.text = "간다"}}}}};
  seen.stacks = {{.name = "stack", .side = "text", .config = StackConfig{.d_model = 4, .heads = 1, .d_ff = 8, .layers = 1}.resolved()}};
  seen.stacks.front().projections = {Tensor::from<float>(ctx, {3, 12}, qkv)};
  const WorkedExample e = worked_example(seen);
  EXPECT_EQ(e.scores, (std::vector<float>{1, 1, 2, 1, 1, 0, 2, 0, 1}));
  EXPECT_EQ(e.scaled, (std::vector<float>{0.5, 0.5, 1, 0.5, 0.5, 0, 1, 0, 0.5}));
  EXPECT_NEAR(e.weights[2], std::exp(1.0) / (2 * std::exp(0.5) + std::exp(1.0)), 1e-6);
  double first = 0.0;
  for (int j = 0; j < 3; ++j) first += static_cast<double>(e.weights[static_cast<std::size_t>(j)]) * (1.0 + 4 * j);
  EXPECT_NEAR(e.output[0], first, 1e-5);
  const std::string svg = example_svg(e);
  EXPECT_EQ(fault_of(svg), "");
  for (const char* part : {"Q · 3 × 4", "scores = Q Kᵀ · 3 × 3", "학교에"}) EXPECT_NE(svg.find(part), std::string::npos) << part;
}

}  // namespace transformer::test
