#include "text/shared/entities.h"

#include <algorithm>
#include <string_view>

namespace transformer {
namespace {

struct Tag {
  char place = 'O';  // B, I, E, S or O
  std::string_view type = {};
};

Tag parse(std::string_view tag) {
  if (tag == "O" || tag.empty()) return {};
  if (tag.size() < 2 || tag[1] != '-') return {'I', tag};
  constexpr std::string_view letters = "BIMELSU", places = "BIIEESS";
  const std::size_t letter = letters.find(tag[0]);
  return letter == std::string_view::npos ? Tag{'I', tag} : Tag{places[letter], tag.substr(2)};
}

}  // namespace

bool marks_entities(const std::vector<std::string>& names) { return std::find(names.begin(), names.end(), "O") != names.end(); }

std::vector<Entity> entities_of(std::span<const std::string> tags) {
  std::vector<Entity> out;
  Tag before;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const Tag tag = parse(tags[i]);
    const bool open = before.place == 'B' || before.place == 'I';
    if (open && (tag.place == 'I' || tag.place == 'E') && tag.type == before.type) out.back().end = i + 1;
    else if (tag.place != 'O') out.push_back({std::string(tag.type), i, i + 1});
    before = tag;
  }
  return out;
}

}  // namespace transformer
