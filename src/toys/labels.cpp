#include "toys/shared/labels.h"

#include <array>
#include <set>

#include "toys/words.h"

namespace transformer {
namespace {

using namespace toy;
using Texts = std::unordered_set<std::string>;

constexpr std::array<std::string_view, 12> proper_names = {"jordan", "austin", "paris",    "sydney",   "florence", "chester",
                                                           "dallas", "israel", "adelaide", "virginia", "carolina", "milan"};
constexpr std::array<std::string_view, 3> titles = {"mr", "ms", "dr"}, speaks = {"said", "wrote", "smiled"},
                                          prepositions = {"in", "from", "near"}, towns = {"city", "airport", "bridge"};
constexpr std::array<std::string_view, 8> filler_words = {"the", "old", "dog", "slept", "again", "today", "and", "then"};

constexpr std::array<std::string_view, 5> things = {"bell", "door", "drum", "fan", "lamp"};

constexpr std::array<std::string_view, 4> quantities = {"one", "two", "three", "four"};
constexpr std::array<std::pair<std::string_view, int>, 6> goods = {
    {{"apple", 1}, {"bread", 2}, {"milk", 3}, {"rice", 4}, {"tea", 5}, {"honey", 7}}};

}  // namespace

std::vector<TaggedText> name_texts(std::int64_t count) {
  check_count(count);
  std::vector<TaggedText> out;
  Texts seen;
  for (std::int64_t n = 0; std::ssize(out) < count; ++n) {
    Draws draw(2, n);
    TaggedText text;
    const auto say = [&](std::string_view word, std::string_view tag = "O") { text.words.emplace_back(word), text.tags.emplace_back(tag); };
    const auto fill = [&](std::size_t least) {
      for (std::size_t words = least + draw.below(3); words > 0; --words) say(draw.one_of(filler_words));
    };
    fill(0);
    for (std::size_t mentions = 1 + draw.below(3); mentions > 0; --mentions) {
      const bool person = draw.below(2) == 0, before = draw.below(2) == 0;
      if (before) say(draw.one_of(person ? titles : prepositions));
      say(draw.one_of(proper_names), person ? "B-PER" : "B-LOC");
      if (draw.below(2) == 0) say(draw.one_of(proper_names), person ? "I-PER" : "I-LOC");
      if (!before) say(draw.one_of(person ? speaks : towns));
      fill(1);
    }
    text.lines.assign(text.words.size(), n + 1);
    if (seen.insert(joined(Words(text.words.begin(), text.words.end()))).second) out.push_back(std::move(text));
  }
  return out;
}

std::vector<SwitchText> switch_texts(std::int64_t count) {
  check_count(count);
  std::vector<SwitchText> out;
  Texts seen;
  for (std::int64_t n = 0; std::ssize(out) < count; ++n) {
    Draws draw(3, n);
    Words text;
    std::set<std::string> on;
    for (std::size_t turns = 2 + draw.below(7); turns > 0; --turns) {
      const std::string_view thing = draw.one_of(things);
      const bool turned_on = draw.below(2) == 0;
      text.push_back(thing), text.push_back(turned_on ? "on" : "off");
      if (turned_on) on.emplace(thing);
      else on.erase(std::string(thing));
    }
    if (std::string line = joined(text); seen.insert(line).second) out.push_back({std::move(line), {on.begin(), on.end()}});
  }
  return out;
}

std::vector<ShoppingText> shopping_texts(std::int64_t count) {
  check_count(count);
  std::vector<ShoppingText> out;
  Texts seen;
  for (std::int64_t n = 0; std::ssize(out) < count; ++n) {
    Draws draw(4, n);
    Words text;
    int total = 0;
    for (std::size_t items = 2 + draw.below(4); items > 0; --items) {
      const std::size_t quantity = draw.below(quantities.size());
      const auto& [name, price] = goods[draw.below(goods.size())];
      text.push_back(quantities[quantity]), text.push_back(name);
      total += static_cast<int>(quantity + 1) * price;
    }
    if (std::string line = joined(text); seen.insert(line).second) out.push_back({std::move(line), total / 10.0});
  }
  return out;
}

}  // namespace transformer
