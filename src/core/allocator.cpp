#include "transformer/core/allocator.h"

#include <algorithm>

#include "transformer/core/backend.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

// Sizes are rounded so that nearly equal requests share blocks: to 64 bytes when small, to 1/16 of the size
// when large (at most 6 % waste).
std::size_t rounded(std::size_t bytes) {
  std::size_t step = 64;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

// A kept block serves a request if it is little larger. Where the choice is between it and giving others back to the system to take a new
// one, half of it may be wasted: batches differ in size, and the blocks of the largest serve them all.
constexpr bool fits(std::size_t block, std::size_t wanted) { return block - wanted <= wanted / 8; }
constexpr bool is_better_than_new(std::size_t block, std::size_t wanted) { return block - wanted <= wanted; }

}  // namespace

Allocator::~Allocator() { trim(0); }

std::shared_ptr<std::byte> Allocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t size = rounded(bytes);
  Block block{nullptr, size, size};
  {
    const std::lock_guard lock(mutex_);
    // Sizes that no longer occur must not pile up beyond the most that was ever needed at once.
    const std::size_t needed = std::max(stats_.peak_in_use, stats_.in_use + size);
    const std::size_t allowed = needed + needed / 8 + (std::size_t{32} << 20);
    if (auto it = kept_.lower_bound(size); reuses_ && it != kept_.end() &&
        (fits(it->first, size) || (stats_.reserved + size > allowed && is_better_than_new(it->first, size)))) {
      it = std::prev(kept_.upper_bound(it->first));  // of equal ones the last freed: it is likeliest to be in cache
      block.data = it->second.data, block.size = it->first;
      kept_.erase(it);
    } else {
      if (reuses_) trim(allowed - std::min(allowed, size));
      try {
        block.data = backend_->allocate(size);
      } catch (const Error&) {  // what is kept may be what is missing
        if (kept_.empty() || !reuses_) throw;
        trim(0);
        block.data = backend_->allocate(size);
      }
      stats_.reserved += size;
      stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    }
    stats_.in_use += size;
    stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  }
  return {block.data, [self = shared_from_this(), block](std::byte*) { self->take_back(block); }};
}

void Allocator::take_back(Block block) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.in_use -= block.wanted;
  try {
    kept_.emplace(block.size, Kept{block.data, ++clock_});
  } catch (...) {
    backend_->deallocate(block.data, block.size);
    stats_.reserved -= block.size;
  }
}

void Allocator::trim(std::size_t limit) noexcept {
  while (stats_.reserved > limit && !kept_.empty()) {
    auto it = std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
    backend_->deallocate(it->second.data, it->first);
    stats_.reserved -= it->first;
    kept_.erase(it);
  }
}

void Allocator::release_kept() {
  const std::lock_guard lock(mutex_);
  trim(0);
  backend_->release_freed();
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
