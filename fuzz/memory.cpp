#include "memory.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef TRANSFORMER_SANITIZED
// Of sanitizer/allocator_interface.h, which GCC does not install though its library has them.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, std::size_t),
                                                         void (*free_hook)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* at);
#endif

namespace transformer::fuzz {
namespace {

std::atomic<std::int64_t> held = 0, most = 0;

void count(std::int64_t bytes) {
  const std::int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (now > most.load(std::memory_order_relaxed)) most.store(now, std::memory_order_relaxed);
}

}  // namespace

void start_counting() {
#ifdef TRANSFORMER_SANITIZED  // it replaces malloc, and tells
  static const int hooked = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t size) { count(static_cast<std::int64_t>(size)); },
      [](const volatile void* at) { count(-static_cast<std::int64_t>(__sanitizer_get_allocated_size(at))); });
  static_cast<void>(hooked);
#endif
  held = most = 0;
}

std::size_t most_bytes() { return static_cast<std::size_t>(std::max<std::int64_t>(most, 0)); }

}  // namespace transformer::fuzz

#ifndef TRANSFORMER_SANITIZED
// Without a sanitizer: the operators of the whole program.
void* operator new(std::size_t size) {
  void* at = std::malloc(std::max<std::size_t>(size, 1));
  if (at == nullptr) throw std::bad_alloc();
  transformer::fuzz::count(static_cast<std::int64_t>(malloc_usable_size(at)));
  return at;
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  void* at = std::aligned_alloc(to, (std::max<std::size_t>(size, 1) + to - 1) / to * to);
  if (at == nullptr) throw std::bad_alloc();
  transformer::fuzz::count(static_cast<std::int64_t>(malloc_usable_size(at)));
  return at;
}
void operator delete(void* at) noexcept {
  if (at != nullptr) transformer::fuzz::count(-static_cast<std::int64_t>(malloc_usable_size(at)));
  std::free(at);
}
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }
void operator delete(void* at, std::align_val_t) noexcept { operator delete(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { operator delete(at); }
#endif
