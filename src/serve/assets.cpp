#include "serve/assets.h"

#include <algorithm>

namespace transformer {

const Asset* find_asset(std::string_view path) {
  if (path == "/") path = "/index.html";
  const auto all = assets();
  const auto found = std::ranges::find(all, path, &Asset::path);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace transformer
