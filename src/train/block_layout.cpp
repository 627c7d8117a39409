#include "train/block_layout.h"

#include <memory>
#include <unordered_map>

namespace transformer {

BlockLayout::BlockLayout(std::vector<Tensor> leaves, std::int64_t processes) : leaves_(std::move(leaves)) {
  std::unordered_map<const Storage*, std::int64_t> begins;
  for (const Tensor& leaf : leaves_) {
    const std::int64_t elements = leaf.storage()->bytes / size_of(leaf.dtype());
    const auto [place, added] = begins.try_emplace(leaf.storage().get(), size_);
    const std::int64_t padded = (elements + alignment - 1) / alignment * alignment;
    if (added) size_ += padded;
    const std::int64_t begin = place->second + leaf.offset(), end = begin + leaf.numel();
    places_.push_back({begin, end, end == place->second + elements ? place->second + padded : end});
  }
  const std::int64_t unit = alignment * processes;
  size_ = (size_ + unit - 1) / unit * unit;
}

Tensor BlockLayout::stretch(const Tensor& block, std::int64_t begin, std::int64_t end) {
  const Storage& all = *block.storage();
  const std::int64_t size = size_of(block.dtype());
  std::shared_ptr<std::byte> data(all.data, all.data.get() + begin * size);
  return Tensor::of(std::make_shared<Storage>(Storage{std::move(data), (end - begin) * size, all.device, all.backend}), block.dtype());
}

Tensor BlockLayout::part(const Tensor& block, std::size_t i) const {
  return stretch(block, places_[i].begin, places_[i].end).view(leaves_[i].shape());
}

Tensor BlockLayout::range(const Tensor& block, std::size_t first, std::size_t last) const {
  return stretch(block, places_[first].begin, places_[last].end);
}

Tensor BlockLayout::storage_of(const Tensor& block, std::size_t i) const {
  const Tensor& leaf = leaves_[i];
  const std::int64_t begin = places_[i].begin - leaf.offset();
  return stretch(block, begin, begin + leaf.storage()->bytes / size_of(leaf.dtype()));
}

void BlockLayout::for_stretches(const std::vector<bool>& given, const std::function<bool(std::size_t)>& decays,
                                const std::function<void(std::int64_t, std::int64_t, bool)>& use) const {
  for (std::size_t first = 0, last = 0; first < leaves_.size(); first = last + 1) {
    last = first;
    if (!given[first]) continue;
    while (last + 1 < leaves_.size() && follow(last) && given[last + 1] && decays(last + 1) == decays(first)) ++last;
    use(places_[first].begin, places_[last].end, decays(first));
  }
}

}  // namespace transformer
