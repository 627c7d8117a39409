#pragma once
// Where leaves lie in a block of memory, one after the other: of an arena, or of a layer that processes keep in pieces.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "transformer/autograd/autograd.h"

namespace transformer {

class BlockLayout {
 public:
  static constexpr std::int64_t alignment = 64;  // elements; a block is a multiple of that for each process

  // All float32. Leaves that are parts of one storage lie together as they do in it.
  BlockLayout(std::vector<Tensor> leaves, std::int64_t processes);

  const std::vector<Tensor>& leaves() const { return leaves_; }
  std::int64_t size() const { return size_; }
  std::pair<std::int64_t, std::int64_t> place(std::size_t i) const { return {places_[i].begin, places_[i].end}; }
  bool follow(std::size_t i) const { return places_[i].next == places_[i + 1].begin; }  // does leaf i + 1 follow leaf i?

  // Elements begin … end of a block: the same memory, but writes to it are counted by themselves.
  static Tensor stretch(const Tensor& block, std::int64_t begin, std::int64_t end);
  // Leaf i in a block, and leaves first … last, which follow each other; each with a storage of its own.
  Tensor part(const Tensor& block, std::size_t i) const;
  Tensor range(const Tensor& block, std::size_t first, std::size_t last) const;
  // What is between leaf i and one that follows. It means nothing, but passes over stretches go over it: gradients are 0 there.
  Tensor gap(const Tensor& block, std::size_t i) const { return stretch(block, places_[i].end, places_[i].next); }
  // All of the storage that leaf i lies in.
  Tensor storage_of(const Tensor& block, std::size_t i) const;

  // use(begin, end, decays) for neighbours that have gradients and decay alike: mostly there are two.
  void for_stretches(const std::vector<bool>& given, const std::function<bool(std::size_t)>& decays,
                     const std::function<void(std::int64_t, std::int64_t, bool)>& use) const;

 private:
  struct Place {
    std::int64_t begin, end, next;  // next: where a leaf would follow this one
  };
  std::vector<Tensor> leaves_;
  std::vector<Place> places_;
  std::int64_t size_ = 0;
};

}  // namespace transformer
