#include "train/arena.h"

#include <utility>

#include "backend/kernels.h"

namespace transformer {

Arena::Arena(Context& ctx, std::vector<Tensor> of) : BlockLayout(std::move(of), ctx.communicator().size()) {
  for (std::size_t i = 0; i < leaves().size(); ++i) numbers_[leaves()[i].node().get()] = i;
  weights_ = block(ctx);
  for (std::size_t i = 0; i < leaves().size(); ++i) move_in(ctx, i);  // what they had is free before more is taken
  gradients_ = block(ctx);
  settle(ctx);
}

Arena::~Arena() {
  for (std::size_t i = 0; i < leaves().size(); ++i)
    if (Tensor& home = leaves()[i].node()->home; home.raw() == part(gradients_, i).raw()) home = Tensor();
}

Tensor Arena::block(Context& ctx, DType dtype) const { return Tensor::zeros(ctx, {size()}, dtype); }

const std::size_t* Arena::find(const Node& leaf) const {
  const auto it = numbers_.find(&leaf);
  return it != numbers_.end() ? &it->second : nullptr;
}

const std::size_t* Arena::find(const Tensor& leaf) const { return leaf.node() ? find(*leaf.node()) : nullptr; }

// Every tensor in the leaf's storage is in the block from now on.
void Arena::move_in(Context& ctx, std::size_t i) {
  if (leaves()[i].numel() == 0 || leaves()[i].raw() == weights_.raw() + place(i).first * size_of(DType::float32)) return;
  const std::shared_ptr<Storage>& storage = leaves()[i].storage();
  Tensor to = storage_of(weights_, i);
  kernels(ctx).copy(ctx, Tensor::of(storage, leaves()[i].dtype()), to);
  storage->data = to.storage()->data;
  storage->backend = to.storage()->backend;
}

void Arena::settle(Context& ctx) {
  for (std::size_t i = 0; i < leaves().size(); ++i) {
    move_in(ctx, i);
    bring_home(ctx, i);
  }
}

void Arena::bring_home(Context& ctx, std::size_t i) {
  Node& node = *leaves()[i].node();
  if (const Tensor home = part(gradients_, i); node.home.raw() != home.raw()) node.home = home;
  if (!node.grad.defined() || node.grad.storage() == node.home.storage()) return;
  kernels(ctx).copy(ctx, node.grad, node.home);
  node.grad = node.home;
}

}  // namespace transformer
