#pragma once
// Pictures of an Explanation, one by one or all of them as one HTML file.
//
//   Explanation seen = explainer.text(ctx, "나는 학교에 간다");
//   std::ofstream("attention.svg") << picture_of(seen, View::attention, {.map = {.layer = 2, .head = -1}});
//   std::ofstream("look.html") << report_html(seen, {.title = "나는 학교에 간다"});

#include <optional>
#include <string>

#include "transformer/explain/explanation.h"
#include "transformer/explain/positions.h"
#include "transformer/explain/theme.h"

namespace transformer {

enum class View : std::uint8_t {
  attention,  // a map of tokens; of images and series what one patch looks at, over the picture or the curve
  matrix,     // a map, also of patches
  rollout,    // through all layers
  next,       // what may come next, or the labels
  example,    // one head step by step
};
inline EnumNames<View> names(View) {
  return {{View::attention, "attention"},
          {View::matrix, "matrix"},
          {View::rollout, "rollout"},
          {View::next, "next"},
          {View::example, "example"}};
}

struct PictureOptions {
  MapChoice map = {};
  std::int64_t query = -1;                      // images and series: who looks; -1: the first token of an image, the last patch of a series
  std::int64_t bars = 12;                       // of `next`
  Theme theme = Theme::automatic;               //
  std::string title = {};                       // of a report
  std::optional<PositionTable> positions = {};  // in a report, also these
};

// An SVG document. Error where the explanation has no such thing.
std::string picture_of(const Explanation& seen, View view, const PictureOptions& options = {});
// All of them that there are, and all heads of the layer, in one HTML file that needs no other.
std::string report_html(const Explanation& seen, const PictureOptions& options = {});

// An SVG document as a PNG file, `scale` pixels for one of its own, drawn by librsvg (Debian: librsvg2-2), which is opened when it is
// first needed. Error says what to install where it is not there.
std::string svg_to_png(const std::string& svg, double scale = 2.0);

}  // namespace transformer
