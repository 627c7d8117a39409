#include "core/pass_allocator.h"

#include <algorithm>

#include "transformer/core/backend.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

constexpr std::size_t grain = 256;  // as far apart as any device wants rows to begin
constexpr std::size_t whole(std::size_t bytes) { return (bytes + grain - 1) / grain * grain; }

}  // namespace

PassAllocator::~PassAllocator() { give_back_slabs(); }

std::shared_ptr<std::byte> PassAllocator::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t size = whole(bytes);
  const std::lock_guard lock(mutex_);
  auto fit = ranges_.lower_bound({size, {0, 0}});
  if (fit == ranges_.end()) {
    add_slab(size);
    fit = ranges_.lower_bound({size, {0, 0}});
  }
  const auto [room, place] = *fit;
  const auto [slab, offset] = place;
  Slab& from = slabs_[slab];
  ranges_.erase(fit);
  from.free.erase(offset);
  if (room > size) insert(slab, offset + size, room - size);
  from.used = std::max(from.used, offset + size);
  stats_.in_use += size;
  stats_.peak_in_use = std::max(stats_.peak_in_use, stats_.in_use);
  auto self = std::static_pointer_cast<PassAllocator>(shared_from_this());
  return {from.data + offset, [self, slab = slab, offset = offset, size](std::byte*) { self->take_back(slab, offset, size); }};
}

// A slab with room for a few requests more, or, where memory is short, for this one.
void PassAllocator::add_slab(std::size_t bytes) {
  const std::size_t wanted = whole(std::max({bytes, stats_.reserved / 8, std::size_t{32} << 20}));
  Slab slab{nullptr, wanted};
  try {
    slab.data = backend_->allocate(wanted);
  } catch (const Error&) {
    slab = {backend_->allocate(bytes), bytes};
  }
  slabs_.push_back(slab);
  stats_.reserved += slab.size;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  insert(slabs_.size() - 1, 0, slab.size);
}

void PassAllocator::insert(std::size_t slab, std::size_t offset, std::size_t size) {
  slabs_[slab].free.emplace(offset, size);
  ranges_.insert({size, {slab, offset}});
}

void PassAllocator::take_back(std::size_t slab, std::size_t offset, std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.in_use -= size;
  std::map<std::size_t, std::size_t>& free = slabs_[slab].free;
  const auto join = [&](auto neighbour) {
    ranges_.erase({neighbour->second, {slab, neighbour->first}});
    offset = std::min(offset, neighbour->first);
    size += neighbour->second;
    free.erase(neighbour);
  };
  const auto after = free.find(offset + size);
  if (after != free.end()) join(after);
  auto before = free.lower_bound(offset);
  if (before != free.begin() && (--before)->first + before->second == offset) join(before);
  insert(slab, offset, size);
}

void PassAllocator::give_back_slabs() noexcept {
  for (const Slab& slab : slabs_) backend_->deallocate(slab.data, slab.size);
  slabs_.clear();
  ranges_.clear();
  stats_.reserved = 0;
}

void PassAllocator::begin() {
  const std::lock_guard lock(mutex_);
  if (stats_.in_use > 0 || slabs_.size() < 2) return;
  std::size_t used = 0;
  for (const Slab& slab : slabs_) used += slab.used;
  give_back_slabs();
  backend_->release_freed();
  add_slab(whole(used + used / 16));  // in one slab blocks lie otherwise than in several
}

void PassAllocator::release_kept() {
  const std::lock_guard lock(mutex_);
  if (stats_.in_use > 0) return;
  give_back_slabs();
}

}  // namespace transformer
