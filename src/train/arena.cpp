#include "train/arena.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/kernels.h"

namespace transformer {

Tensor Arena::stretch(const Tensor& block, std::int64_t begin, std::int64_t end) {
  const Storage& all = *block.storage();
  const std::int64_t size = size_of(block.dtype());
  std::shared_ptr<std::byte> data(all.data, all.data.get() + begin * size);
  return Tensor::of(std::make_shared<Storage>(Storage{std::move(data), (end - begin) * size, all.device, all.backend}), block.dtype());
}

Arena::Arena(Context& ctx, std::vector<Tensor> leaves) : leaves_(std::move(leaves)) {
  // Leaves may be parts of one storage: it moves as a whole.
  std::unordered_map<const Storage*, std::int64_t> begins;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Tensor& leaf = leaves_[i];
    numbers_[leaf.node().get()] = i;
    const std::int64_t elements = leaf.storage()->bytes / size_of(leaf.dtype());
    const auto [place, added] = begins.try_emplace(leaf.storage().get(), size_);
    const std::int64_t padded = (elements + alignment - 1) / alignment * alignment;
    if (added) size_ += padded;
    const std::int64_t begin = place->second + leaf.offset(), end = begin + leaf.numel();
    places_.push_back({begin, end, end == place->second + elements ? place->second + padded : end});
  }
  const std::int64_t unit = alignment * ctx.communicator().size();
  size_ = (size_ + unit - 1) / unit * unit;
  weights_ = block(ctx);
  for (std::size_t i = 0; i < leaves_.size(); ++i) move_in(ctx, i);  // what they had is free before more is taken
  gradients_ = block(ctx);
  settle(ctx);
}

Arena::~Arena() {
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (Tensor& home = leaves_[i].node()->home; home.raw() == part(gradients_, i).raw()) home = Tensor();
}

Tensor Arena::block(Context& ctx, DType dtype) const { return Tensor::zeros(ctx, {size_}, dtype); }

Tensor Arena::part(const Tensor& block, std::size_t i) const {
  return stretch(block, places_[i].begin, places_[i].end).view(leaves_[i].shape());
}

Tensor Arena::range(const Tensor& block, std::size_t first, std::size_t last) const {
  return stretch(block, places_[first].begin, places_[last].end);
}

const std::size_t* Arena::find(const Node& leaf) const {
  const auto it = numbers_.find(&leaf);
  return it != numbers_.end() ? &it->second : nullptr;
}

const std::size_t* Arena::find(const Tensor& leaf) const { return leaf.node() ? find(*leaf.node()) : nullptr; }

// Every tensor in the leaf's storage is in the block from now on.
void Arena::move_in(Context& ctx, std::size_t i) {
  if (leaves_[i].numel() == 0 || leaves_[i].raw() == weights_.raw() + places_[i].begin * size_of(DType::float32)) return;
  const std::shared_ptr<Storage>& storage = leaves_[i].storage();
  const std::int64_t begin = places_[i].begin - leaves_[i].offset();
  const Tensor all = Tensor::of(storage, leaves_[i].dtype());
  Tensor to = stretch(weights_, begin, begin + all.numel());
  kernels(ctx).copy(ctx, all, to);
  storage->data = to.storage()->data;
  storage->backend = to.storage()->backend;
}

void Arena::settle(Context& ctx) {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    move_in(ctx, i);
    bring_home(ctx, i);
  }
}

void Arena::bring_home(Context& ctx, std::size_t i) {
  Node& node = *leaves_[i].node();
  if (const Tensor home = part(gradients_, i); node.home.raw() != home.raw()) node.home = home;
  if (!node.grad.defined() || node.grad.storage() == node.home.storage()) return;
  kernels(ctx).copy(ctx, node.grad, node.home);
  node.grad = node.home;
}

}  // namespace transformer
