#pragma once
// Which of many keys begin at a place in a text: a trie over bytes. Its nodes take memory in proportion to the keys.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transformer {

class ByteTrie {
 public:
  ByteTrie() { first_.fill(none); }
  // Of equal keys the last one counts; empty keys are left out.
  explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys);

  bool empty() const { return nodes_.empty(); }
  bool begins_key(char byte) const { return first_[static_cast<unsigned char>(byte)] != none; }

  // Calls f(bytes, value) for every key that text begins with, shortest first.
  template <class F>
  void for_each_prefix(std::string_view text, F&& f) const {
    if (text.empty()) return;
    std::uint32_t node = first_[static_cast<unsigned char>(text[0])];
    for (std::size_t size = 1; node != none; ++size) {
      if (nodes_[node].value >= 0) f(size, nodes_[node].value);
      if (size == text.size()) return;
      node = child(node, static_cast<unsigned char>(text[size]));
    }
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Node {
    std::int32_t value = -1;
    std::uint32_t children = 0;  // where they begin
    std::uint16_t count = 0;
    unsigned char byte = 0;  // that leads here
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const Node& parent = nodes_[node];
    for (std::uint32_t i = parent.children, end = i + parent.count; i < end; ++i)  // few, and in the order of their bytes
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? i : none;
    return none;
  }
  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_{};  // the children of the root
};

}  // namespace transformer
