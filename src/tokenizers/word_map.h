#pragma once
// A map of strings that can be asked with views.

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace transformer {

struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class T>
using WordMap = std::unordered_map<std::string, T, WordHash, std::equal_to<>>;

}  // namespace transformer
