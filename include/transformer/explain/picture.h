#pragma once
// Pictures of attention: which token looks at which.
//
//   AttentionPicture picture{.rows = {"나는", "학교에", "간다"}, .columns = {"I", "go", "to", "school"}, .values = weights,
//                            .caption = "Cross-attention, last layer", .row_title = "target", .column_title = "source"};
//   std::ofstream("attention.svg") << attention_svg(picture);

#include <string>
#include <vector>

#include "transformer/explain/theme.h"

namespace transformer {

struct AttentionPicture {
  std::vector<std::string> rows = {}, columns = {};  // labels, UTF-8: what is not, and what XML cannot hold, is shown as U+FFFD
  std::vector<float> values = {};                    // [rows, columns], row after row; finite
  std::string caption = {};                          // below the picture
  std::string row_title = {}, column_title = {};     // what the rows and the columns are
};

// An SVG document of its own: a heat map with its labels, a colour scale from 0 (or the least value, if that is less) to the
// greatest value, and every value as a tooltip. It brings its own background, light or dark as the reader's system is, and its
// size follows from the labels. The same picture gives the same text. Error when values do not fit the labels.
std::string attention_svg(const AttentionPicture& picture, Theme theme = Theme::automatic);

}  // namespace transformer
