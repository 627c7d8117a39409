#include "tokenizers/byte_trie.h"

#include <algorithm>
#include <deque>

namespace transformer {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys) {
  first_.fill(none);
  std::erase_if(keys, [](const auto& key) { return key.first.empty(); });
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Level by level, so that the children of a node lie side by side. A range of keys shares its first `depth` bytes.
  struct Range {
    std::size_t begin, end, depth;
    std::uint32_t node;
  };
  std::deque<Range> open = {{0, keys.size(), 0, none}};
  while (!open.empty()) {
    const Range range = open.front();
    open.pop_front();
    const auto children = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t i = range.begin; i < range.end;) {
      const char byte = keys[i].first[range.depth];
      std::size_t end = i;
      while (end < range.end && keys[end].first[range.depth] == byte) ++end;
      const auto node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      if (range.node == none) first_[static_cast<unsigned char>(byte)] = node;
      for (; i < end && keys[i].first.size() == range.depth + 1; ++i) nodes_[node].value = keys[i].second;
      if (i < end) open.push_back({i, end, range.depth + 1, node});
      i = end;
    }
    if (range.node == none) continue;
    nodes_[range.node].children = children;
    nodes_[range.node].count = static_cast<std::uint16_t>(nodes_.size() - children);
  }
}

}  // namespace transformer
