#include "transformer/core/allocator.h"

#include <algorithm>

#include "transformer/core/backend.h"

namespace transformer {
namespace {

// Sizes are rounded so that nearly equal requests share blocks: to 64 bytes when small, to 1/16 of the size
// when large (at most 6 % waste).
std::size_t rounded(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

// A kept block serves a request if at most 1/8 of it is wasted.
constexpr bool fits(std::size_t block, std::size_t wanted) { return block - wanted <= wanted / 8; }

}  // namespace

Allocator::~Allocator() { release_kept(); }

std::shared_ptr<std::byte> Allocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t size = rounded(bytes);
  Block block{nullptr, size};
  {
    const std::lock_guard lock(mutex_);
    if (auto it = kept_.lower_bound(size); it != kept_.end() && fits(it->first, size)) {
      block = {it->second, it->first};
      kept_.erase(it);
      kept_bytes_ -= block.size;
    } else {
      // Keep at most an eighth of what is in use before asking the system for more: sizes that no longer
      // occur must not pile up.
      trim(std::max<std::size_t>((stats_.in_use + size) / 8, std::size_t{16} << 20));
      block.data = backend_->allocate(size);
      stats_.reserved += size;
      stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    }
    stats_.in_use += block.size;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  }
  return {block.data, [self = shared_from_this(), block](std::byte*) { self->take_back(block); }};
}

void Allocator::take_back(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.in_use -= block.size;
  try {
    kept_.emplace(block.size, block.data);
    kept_bytes_ += block.size;
  } catch (...) {
    backend_->deallocate(block.data, block.size);
    stats_.reserved -= block.size;
  }
}

void Allocator::trim(std::size_t limit) noexcept {
  while (kept_bytes_ > limit) {  // largest first: fewest calls
    auto it = std::prev(kept_.end());
    backend_->deallocate(it->second, it->first);
    kept_bytes_ -= it->first;
    stats_.reserved -= it->first;
    kept_.erase(it);
  }
}

void Allocator::release_kept() {
  const std::lock_guard lock(mutex_);
  trim(0);
}

MemoryStats Allocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_in_use = stats_.in_use;
  stats_.peak_reserved = stats_.reserved;
}

}  // namespace transformer
