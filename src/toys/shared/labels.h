#pragma once
// Three more made-up languages, like those of toys/shared/languages.h, with labels of other kinds. In all of them the order of the words
// decides. Nothing is random: the n-th text is always the same, and all texts are different.

#include <cstdint>
#include <string>
#include <vector>

#include "transformer/text/tagged.h"

namespace transformer {

// Names of people and of places. Each name may be of either; what stands before it or behind it tells, but for the second word of a name.
//   mr  jordan austin  slept  in  new  paris        O B-PER I-PER O O B-LOC I-LOC
std::vector<TaggedText> name_texts(std::int64_t count);

// Things that are turned on and off; the labels are those that are on in the end, sorted by name. There may be none.
//   lamp on bell on lamp off        bell
struct SwitchText {
  std::string text;
  std::vector<std::string> on;
};
std::vector<SwitchText> switch_texts(std::int64_t count);

// Shopping: what it costs, quantities times prices, in tens.
//   three bread two milk            (3·2 + 2·3) / 10 = 1.2
struct ShoppingText {
  std::string text;
  double total = 0.0;
};
std::vector<ShoppingText> shopping_texts(std::int64_t count);

}  // namespace transformer
