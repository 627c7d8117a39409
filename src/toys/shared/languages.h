#pragma once
// Two small made-up languages for demonstrations and tests that need no data. In both the order of the words is everything: who only
// counts words can say nothing about them. Nothing is random: the n-th text is always the same, and all texts are different.

#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

// One to six pairs of brackets of three kinds, up to three deep, among words that mean nothing:
//   { a ( b ) } c      balanced
//   { a ) b ( } c      unbalanced
// Texts come in pairs: the second one is the first with two brackets exchanged, so that it has the same words as often.
struct BracketText {
  std::string text;
  bool balanced = false;
};
std::vector<BracketText> bracket_texts(std::int64_t count);  // the first `count` of them; an even number

// Songs: two, three or four words, over and over in the same order, 24 words or more. A word that is hidden is known from its other
// places, at a distance that each song has for itself.
//   sun rain wind sun rain wind sun rain wind sun rain wind sun rain wind sun rain wind sun rain wind sun rain wind sun
std::vector<std::string> song_texts(std::int64_t count);

}  // namespace transformer
