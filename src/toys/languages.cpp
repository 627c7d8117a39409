#include "toys/shared/languages.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "toys/words.h"

namespace transformer {
namespace {

using namespace toy;

constexpr std::array<std::string_view, 3> open = {"(", "[", "{"}, close = {")", "]", "}"};
constexpr std::array<std::string_view, 10> filler_letters = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
constexpr std::array<std::string_view, 24> words = {"sun",  "rain", "wind", "snow", "sea",  "sand", "tree", "leaf",
                                                    "bird", "fish", "frog", "bee",  "moon", "star", "hill", "lake",
                                                    "road", "wall", "door", "lamp", "bell", "drum", "song", "tale"};

std::size_t kind_of(std::string_view word, const std::array<std::string_view, 3>& of) {
  std::size_t kind = 0;
  while (kind < of.size() && of[kind] != word) ++kind;
  return kind;
}
bool is_bracket(std::string_view word) { return kind_of(word, open) < open.size() || kind_of(word, close) < close.size(); }

bool is_balanced(const Words& text) {
  std::vector<std::size_t> inside;  // kinds of the brackets that are open
  for (const std::string_view word : text) {
    if (const std::size_t kind = kind_of(word, open); kind < open.size()) {
      inside.push_back(kind);
    } else if (const std::size_t closed = kind_of(word, close); closed < close.size()) {
      if (inside.empty() || inside.back() != closed) return false;
      inside.pop_back();
    }
  }
  return inside.empty();
}

Words balanced_text(Draws& draw) {
  constexpr std::size_t most_pairs = 6, deepest = 3;
  Words text;
  std::vector<std::size_t> inside;
  const auto fill = [&] {
    for (std::size_t n = draw.below(3); n > 0; --n) text.push_back(filler_letters[draw.below(filler_letters.size())]);
  };
  // Short texts are more frequent than long ones: they are learned first.
  for (std::size_t left = 1 + std::min(draw.below(most_pairs), draw.below(most_pairs)); left > 0 || !inside.empty();) {
    fill();
    const bool opens = inside.empty() || (left > 0 && inside.size() < deepest && draw.below(2) == 0);
    if (opens) {
      inside.push_back(draw.below(open.size()));
      text.push_back(open[inside.back()]);
      --left;
    } else {
      text.push_back(close[inside.back()]);
      inside.pop_back();
    }
  }
  fill();
  return text;
}

// The same words with two brackets exchanged. The first and the last are two for which that works.
Words unbalanced_text(Words text, Draws& draw) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_bracket(text[i])) places.push_back(i);
  while (true) {
    const std::size_t a = places[draw.below(places.size())], b = places[draw.below(places.size())];
    std::swap(text[a], text[b]);
    if (!is_balanced(text)) return text;
    std::swap(text[a], text[b]);
  }
}

}  // namespace

std::vector<BracketText> bracket_texts(std::int64_t count) {
  check_count(count);
  std::vector<BracketText> out;
  std::unordered_set<std::string> seen;
  for (std::int64_t n = 0; std::ssize(out) + 1 < count; ++n) {
    Draws draw(0, n);
    const Words right = balanced_text(draw), wrong = unbalanced_text(right, draw);
    const std::string first = joined(right), second = joined(wrong);
    if (seen.contains(first) || seen.contains(second)) continue;
    seen.insert(first), seen.insert(second);
    out.push_back({first, true}), out.push_back({second, false});
  }
  return out;
}

std::vector<std::string> song_texts(std::int64_t count) {
  check_count(count);
  std::vector<std::string> out;
  std::unordered_set<std::string> seen;
  for (std::int64_t n = 0; std::ssize(out) < count; ++n) {
    Draws draw(1, n);
    Words round;
    for (const std::size_t size = 2 + draw.below(3); round.size() < size;) {
      const std::string_view word = words[draw.below(words.size())];
      if (std::find(round.begin(), round.end(), word) == round.end()) round.push_back(word);
    }
    Words text;
    for (const std::size_t size = 24 + draw.below(9); text.size() < size;) text.push_back(round[text.size() % round.size()]);
    if (std::string song = joined(text); seen.insert(song).second) out.push_back(std::move(song));
  }
  return out;
}

}  // namespace transformer
