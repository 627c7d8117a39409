#pragma once
// The parameters of a training in one block of memory, and blocks of the same layout for what belongs to them: gradients, Adam's m and
// v, copies in bfloat16, averages. A pass over all of them is then one call of a kernel, and addresses stay the same from step to step.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transformer/autograd/autograd.h"

namespace transformer {

class Arena {
 public:
  // The storages of these leaves, all different and float32, move into the block, in this order. Their gradients will lie in another.
  Arena(Context& ctx, std::vector<Tensor> leaves);
  ~Arena();  // the weights stay where they are; gradients have no home any more
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  static constexpr std::int64_t alignment = 64;  // elements; a block is a multiple of that, and of the number of processes

  const std::vector<Tensor>& leaves() const { return leaves_; }
  const Tensor& weights() const { return weights_; }  // [size]
  const Tensor& gradients() const { return gradients_; }

  std::int64_t size() const { return size_; }
  std::pair<std::int64_t, std::int64_t> place(std::size_t i) const { return {places_[i].begin, places_[i].end}; }
  // Elements begin … end of a block: the same memory, but writes to it are counted by themselves.
  static Tensor stretch(const Tensor& block, std::int64_t begin, std::int64_t end);

  // Another block, zero. What is between the leaves, up to 63 elements, means nothing.
  Tensor block(Context& ctx, DType dtype = DType::float32) const;
  // Leaf i in a block, and leaves first … last, which follow each other; each with a storage of its own.
  Tensor part(const Tensor& block, std::size_t i) const;
  Tensor range(const Tensor& block, std::size_t first, std::size_t last) const;
  bool follow(std::size_t i) const { return places_[i].next == places_[i + 1].begin; }  // does leaf i + 1 follow leaf i?
  const std::size_t* find(const Node& leaf) const;
  const std::size_t* find(const Tensor& leaf) const;  // its number, null: it is not here

  // Brings home what others have put elsewhere since: weights, and the gradients that are there.
  void settle(Context& ctx);
  void bring_home(Context& ctx, std::size_t i);  // a gradient alone

 private:
  struct Place {
    std::int64_t begin, end, next;  // next: where a leaf would follow this one
  };
  void move_in(Context& ctx, std::size_t i);

  std::vector<Tensor> leaves_;
  std::vector<Place> places_;
  std::unordered_map<const Node*, std::size_t> numbers_;
  std::int64_t size_ = 0;
  Tensor weights_, gradients_;
};

}  // namespace transformer
