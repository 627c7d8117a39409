#pragma once
// Bars for shares of a whole: what a model may say next.
//
//   std::ofstream("next.svg") << bars_svg({.labels = {"학교에", "집에"}, .values = {0.7, 0.2}, .caption = "나는 …"});

#include <string>
#include <vector>

#include "transformer/explain/theme.h"

namespace transformer {

struct BarPicture {
  std::vector<std::string> labels = {};  // UTF-8
  std::vector<double> values = {};       // from 0 to 1
  std::string caption = {};              // on top
};
// An SVG document of its own, a bar below the other, each with its label and its share in per cent.
std::string bars_svg(const BarPicture& picture, Theme theme = Theme::automatic);

}  // namespace transformer
