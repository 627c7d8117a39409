#include "transformer/explain/report.h"

#include <algorithm>
#include <cmath>

#include "explain/svg.h"
#include "transformer/core/error.h"
#include "transformer/explain/bars.h"
#include "transformer/explain/picture.h"
#include "transformer/explain/plot.h"
#include "transformer/explain/rollout.h"
#include "transformer/explain/worked_example.h"

namespace transformer {
namespace {

std::string head_name(std::int64_t head) { return head < 0 ? "mean of all heads" : fmt::format("head {}", head); }

std::string map_caption(const Explanation& seen, const MapChoice& choice) {
  const SeenAttention& a = seen.attention(choice.attention);
  const std::int64_t layer = choice.layer < 0 ? std::ssize(a.layers) - 1 : choice.layer;
  const char* kind = a.name == "cross" ? "cross-attention" : a.masked ? "masked self-attention" : "self-attention";
  const std::string whose = a.name == "encoder" || a.name == "decoder" ? a.name + " " : "";
  return fmt::format("{}{}, layer {}, {}", whose, kind, layer, head_name(choice.head));
}

std::vector<std::string> labels_of_side(const SeenSide& side) {
  std::vector<std::string> out;
  for (const SeenToken& t : side.tokens) out.push_back(t.text);
  return out;
}

std::string matrix_svg(const Explanation& seen, const SeenMap& map, const std::string& caption, Theme theme) {
  return attention_svg({.rows = labels_of_side(seen.side(map.rows)),
                        .columns = labels_of_side(seen.side(map.columns)),
                        .values = map.values,
                        .caption = caption,
                        .row_title = map.rows + " ↓",
                        .column_title = fmt::format("looks at {} →", map.columns)},
                       theme);
}

// What token `query` looks at: over the picture, over the curve.
std::string looks_svg(const Explanation& seen, const SeenMap& map, const PictureOptions& options, const std::string& caption) {
  const SeenSide &side = seen.side(map.rows), &looked_at = seen.side(map.columns);
  const std::int64_t rows = std::ssize(side.tokens), n = std::ssize(looked_at.tokens);
  const std::int64_t query = options.query >= 0 ? options.query : seen.kind == "image" ? 0 : rows - 1;
  if (query >= rows) fail("explain", "there is no token {}: there are {}, from 0", query, rows);
  const std::vector<float> row(map.values.begin() + query * n, map.values.begin() + (query + 1) * n);
  if (seen.kind == "image") {
    Rollout over{.rows = looked_at.rows, .columns = looked_at.columns, .values = {row.begin() + looked_at.first, row.end()}};
    const std::string who = side.tokens[static_cast<std::size_t>(query)].text;
    return rollout_svg(decode_image(seen.image, "image"), over, fmt::format("{}, from {}", caption, who), options.theme);
  }
  // A row of the history is in one patch or in several: their weights are shared out among their rows.
  const SeenSeries& s = seen.series;
  std::vector<double> shades(s.history.size());
  const std::size_t first = static_cast<std::size_t>(n) - s.patches.size();
  for (std::size_t i = 0; i < s.patches.size(); ++i)
    for (std::int64_t at = s.patches[i].first; at < s.patches[i].second; ++at)
      shades[static_cast<std::size_t>(at)] += static_cast<double>(row[first + i]) /
          static_cast<double>(s.patches[i].second - s.patches[i].first);
  return series_svg(
      {.panels =
           {{.title = s.channels[static_cast<std::size_t>(s.channel)], .history = s.history, .forecast = s.forecast, .shades = shades}},
       .title = fmt::format("{}, from rows {}", caption, side.tokens[static_cast<std::size_t>(query)].text)},
      options.theme);
}

bool over_patches(const Explanation& seen) { return seen.kind == "image" || seen.kind == "series"; }

std::string next_svg(const Explanation& seen, const PictureOptions& options) {
  if (seen.predictions.empty()) fail("explain", "{} says nothing about what comes next, and gives no labels here", seen.architecture);
  const SeenPrediction& p = seen.predictions.back();
  BarPicture bars;
  for (const SeenChoice& choice : p.choices) {
    if (std::ssize(bars.values) >= options.bars) break;
    bars.labels.push_back(choice.text);
    bars.values.push_back(std::clamp(choice.probability, 0.0, 1.0));
  }
  bars.caption = seen.purpose == "next_words" ? "what comes next"
      : seen.kind == "translation"            ? "behind the last token"
                                              : "what the model says";
  return bars_svg(bars, options.theme);
}

// Text in HTML.
std::string escaped_html(const std::string& text) { return svg::label_of(text, 1 << 20).full; }

}  // namespace

std::string picture_of(const Explanation& seen, View view, const PictureOptions& options) {
  const auto picture = [&](const SeenMap& map, const std::string& caption, bool matrix) {
    return over_patches(seen) && !matrix ? looks_svg(seen, map, options, caption) : matrix_svg(seen, map, caption, options.theme);
  };
  switch (view) {
    case View::attention:
    case View::matrix: {
      const SeenAttention& a = seen.attention(options.map.attention);
      return picture({a.rows, a.columns, seen.map(options.map)}, map_caption(seen, options.map), view == View::matrix);
    }
    case View::rollout: return picture(seen.rollout(options.map.attention), "roll-out through all layers", false);
    case View::next: return next_svg(seen, options);
    case View::example:
      return example_svg(worked_example(seen, std::max<std::int64_t>(options.map.head, 0),
                                        options.map.attention == "decoder" ? "decoder" : std::string_view()),
                         options.theme);
  }
  fail("explain", "there is no such picture");
}

std::string report_html(const Explanation& seen, const PictureOptions& options) {
  std::string body;
  const auto section = [&](const std::string& title, const std::string& note, const std::string& pictures) {
    body += fmt::format("<section>\n<h2>{}</h2>\n<p>{}</p>\n<div class=\"pictures\">\n{}</div>\n</section>\n", title, note, pictures);
  };
  for (const SeenSide& side : seen.sides) {
    if (over_patches(seen)) break;
    std::string chips;
    for (const SeenToken& t : side.tokens)
      chips += fmt::format("<span class=\"token{}\" title=\"{} {}\">{}</span>\n", t.special ? " special" : "", t.id, escaped_html(t.token),
                           escaped_html(t.text));
    section(fmt::format("Tokens: {}", side.name), fmt::format("{} tokens", side.tokens.size()), chips);
  }
  if (!seen.alternatives.empty()) {
    std::string lines;
    for (const SeenAlternative& a : seen.alternatives)
      lines += fmt::format("<p class=\"said\">{} <span>{:.3f}</span></p>\n", escaped_html(a.text), a.score);
    section("Translations", "What the beam search kept, best first, with their scores.", lines);
  }
  section("Attention", escaped_html(map_caption(seen, options.map)), picture_of(seen, View::attention, options));
  const SeenAttention& a = seen.attention(options.map.attention);
  PictureOptions each = options;
  std::string heads;
  for (each.map.head = 0; each.map.head < a.heads(); ++each.map.head) heads += picture_of(seen, View::attention, each);
  section("All heads", "Each head of the layer has a view of its own.", heads);
  if (seen.has_rollout(options.map.attention))
    section("Roll-out",
            "What each token takes from the input through all layers: half of a layer's output is what attention gathers, half the "
            "token itself.",
            picture_of(seen, View::rollout, options));
  if (!seen.predictions.empty()) section("What comes out", "The most probable answers.", picture_of(seen, View::next, options));
  if (!seen.stacks.empty())
    section("Step by step", "One head of the first layer in numbers: scores, scaling, softmax, weighted sum.",
            picture_of(seen, View::example, options));
  if (options.positions)
    section("Positions", "How places are told apart.",
            positions_svg(*options.positions, options.theme) + waves_svg(*options.positions, {}, options.theme));

  std::string sizes;
  if (!seen.stacks.empty()) {
    const StackConfig& c = seen.stacks.front().config;
    sizes = fmt::format(" · {} layers · {} heads · d_model {}", c.layers, c.heads, c.d_model);
  }
  const std::string title = options.title.empty() ? seen.architecture : options.title;
  // A page follows the reader's system, or is fixed as its pictures are.
  const std::string light = "--paper:#f6f7f9;--card:#fff;--ink:#1a1a1a;--soft:#5c5c5c;--line:#dfe3e8;--chip:#e6eefb",
                    dark = "--paper:#0e1013;--card:#16181c;--ink:#ececec;--soft:#a8a8a8;--line:#2c3036;--chip:#22324a";
  const std::string colours = options.theme == Theme::dark ? fmt::format(":root{{{}}}", dark)
      : options.theme == Theme::light                      ? fmt::format(":root{{{}}}", light)
                                      : fmt::format(":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}", light, dark);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}</title>\n<style>\n{1}\n"
      "body{{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,'Noto Sans KR','NanumGothic',sans-serif}}\n"
      "main{{max-width:70rem;margin:0 auto;padding:2rem 1rem}}h1{{font-size:1.6rem;margin:0 0 .25rem}}h2{{font-size:1.1rem;margin:0}}\n"
      "header p,section>p{{color:var(--soft);margin:.15rem 0 .75rem}}section{{background:var(--card);border:1px solid var(--line);"
      "border-radius:10px;padding:1rem;margin:1rem 0}}\n"
      ".pictures{{display:flex;flex-wrap:wrap;gap:.75rem;overflow-x:auto}}.pictures svg{{max-width:none}}\n"
      ".token{{background:var(--chip);border-radius:5px;padding:.1rem .5rem}}.special{{opacity:.6}}.said{{margin:.1rem 0;width:100%}}"
      ".said span{{color:var(--soft);font-size:.85em}}\n</style>\n</head>\n<body>\n<main>\n"
      "<header><h1>{0}</h1><p>{2}{3}</p></header>\n{4}</main>\n</body>\n</html>\n",
      escaped_html(title), colours, escaped_html(seen.architecture), sizes, body);
}

}  // namespace transformer
