#pragma once
// What the pictures share: labels, and a drawing that becomes an SVG document.

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "transformer/explain/theme.h"

namespace transformer::svg {

constexpr double font = 14.0, column = 0.61 * font;  // a monospace font; wide glyphs take two columns, and need less
constexpr double gap = 8.0, margin = 16.0;
constexpr std::int64_t longest_label = 40, longest_caption = 120;  // columns; longer ones end in …

struct Text {
  std::string full, shown;  // as XML
  double width = 0.0;       // of what is shown, in pixels
};
// UTF-8: what is not, and what XML cannot hold, is shown as U+FFFD.
Text label_of(const std::string& utf8, std::int64_t longest = longest_label);

class Drawing {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  // kind: ink or soft; anchor: start, middle or end; more: further attributes, with a space in front
  void text(double x, double y, const Text& label, std::string_view kind, std::string_view anchor, std::string_view more = "");
  // All of it on paper of this size.
  std::string document(double width, double height, const Text& title, Theme theme = Theme::automatic) const;

 private:
  std::string text_;
};

}  // namespace transformer::svg
