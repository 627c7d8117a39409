#pragma once
// Names of people, places … as the tags of words mark them: B-PER I-PER O B-LOC.

#include <span>
#include <string>
#include <vector>

namespace transformer {

// Words [begin, end) are one entity.
struct Entity {
  std::string type = {};
  std::size_t begin = 0, end = 0;
  bool operator==(const Entity&) const = default;
};

// Do tags of these names mark entities? They do when one of them is O, a word outside of all; tags of parts of speech have none.
bool marks_entities(const std::vector<std::string>& names);

// The entities of a text, as seqeval and conlleval find them: B begins one, I and E go on, E ends, S is one alone (L and U mean the same
// as E and S), O is outside. I and E that continue nothing, or another type, begin one: so IOB1, IOB2 and IOBES are all read. A tag
// without such a letter is the type itself, and goes on as I does.
std::vector<Entity> entities_of(std::span<const std::string> tags);

}  // namespace transformer
