#pragma once
// The parameters of a training in one block of memory, and blocks of the same layout for what belongs to them: gradients, Adam's m and
// v, copies in bfloat16, averages. A pass over all of them is then one call of a kernel, and addresses stay the same from step to step.

#include <unordered_map>
#include <vector>

#include "train/block_layout.h"

namespace transformer {

class Arena : public BlockLayout {
 public:
  // The storages of these leaves, all different and float32, move into the block, in this order. Their gradients will lie in another.
  Arena(Context& ctx, std::vector<Tensor> of);
  ~Arena();  // the weights stay where they are; gradients have no home any more
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const Tensor& weights() const { return weights_; }  // [size]
  const Tensor& gradients() const { return gradients_; }

  Tensor block(Context& ctx, DType dtype = DType::float32) const;  // another one, zero
  const std::size_t* find(const Node& leaf) const;
  const std::size_t* find(const Tensor& leaf) const;  // its number, null: it is not here

  // Brings home what others have put elsewhere since: weights, and the gradients that are there.
  void settle(Context& ctx);
  void bring_home(Context& ctx, std::size_t i);  // a gradient alone

 private:
  void move_in(Context& ctx, std::size_t i);

  std::unordered_map<const Node*, std::size_t> numbers_;
  Tensor weights_, gradients_;
};

}  // namespace transformer
