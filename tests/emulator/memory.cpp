#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace emulator {
namespace {

constexpr std::size_t page = 4096, addresses = std::size_t{1} << 40, alignment = 256;
constexpr std::size_t rounded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::byte* reserve(std::size_t bytes) {
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

bool is_untouched(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == std::byte{0xFF}; });
}

}  // namespace

std::byte* guarded_pages(std::size_t bytes) {
  const std::size_t size = rounded(bytes, page);
  std::byte* at = reserve(size + 2 * page) + page;
  if (mprotect(at, size, PROT_READ | PROT_WRITE) != 0) std::abort();
  return at;
}

void forget_pages(std::byte* at, std::size_t bytes) {
  mmap(at, rounded(bytes, page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

Memory& Memory::instance() {
  static Memory* memory = new Memory;  // tensors may outlive everything else
  return *memory;
}

Memory::Memory() : base_(reserve(addresses)), next_(base_ + page) {}

// At the end of its pages, so that the first byte beyond it is not there, or as near to that as its alignment lets it.
std::byte* Memory::take(std::size_t bytes) {
  const std::size_t wanted = std::max<std::size_t>(bytes, 1), size = rounded(rounded(wanted, alignment), page);
  if (size > total - std::min(used_, total) || size > addresses - static_cast<std::size_t>(next_ - base_) - page) return nullptr;
  std::byte* pages = next_;
  if (mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) return nullptr;
  std::memset(pages, 0xFF, size);
  if (!open_) mprotect(pages, size, PROT_NONE);
  next_ += size + page;
  used_ += size;
  std::byte* at = pages + size - rounded(wanted, alignment);
  allocations_[at] = {pages, size, wanted};
  return at;
}

const char* Memory::give_back(std::byte* at) {
  const auto it = allocations_.find(at);
  if (it == allocations_.end()) return "memory was given back that had not been taken";
  const Allocation a = it->second;
  allocations_.erase(it);
  used_ -= a.size;
  const bool fine = is_untouched(a.pages, at) && is_untouched(at + a.wanted, a.pages + a.size);
  mmap(a.pages, a.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return fine ? nullptr : "something was written beside an allocation";
}

bool Memory::holds(const void* at) const { return at >= base_ && at < base_ + addresses; }

bool Memory::is_allocated(const void* at, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(at);
  auto it = allocations_.upper_bound(const_cast<std::byte*>(first));
  if (it == allocations_.begin()) return false;
  --it;
  return first + bytes <= it->first + it->second.wanted;
}

void Memory::protect(bool open) {
  if (open == open_) return;
  open_ = open;
  for (const auto& [at, a] : allocations_) mprotect(a.pages, a.size, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

}  // namespace emulator
