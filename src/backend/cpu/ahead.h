#pragma once
// Lines of memory that are asked for before they are needed. What other cores have just written is far away on processors of many cores: a
// store waits for its line as a load does, and only a few of them wait side by side.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace transformer::ahead {

inline constexpr std::int64_t line = 64;

// To be read.
inline void fetch(const void* from, std::int64_t bytes) {
  const char* p = static_cast<const char*>(from);
  for (std::int64_t at = 0; at < bytes; at += line) __builtin_prefetch(p + at, 0, 3);
}

// To be written.
inline void own(void* to, std::int64_t bytes) {
  char* p = static_cast<char*>(to);
  for (std::int64_t at = 0; at < bytes; at += line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(p[at]));
#else
    __builtin_prefetch(p + at, 1, 3);
#endif
  }
}

// memcpy, with the lines of the next part on their way.
inline void copy(const std::byte* from, std::byte* to, std::int64_t bytes) {
  constexpr std::int64_t part = 2048;
  const auto next = [&](std::int64_t at) {
    if (at >= bytes) return;
    const std::int64_t n = std::min(part, bytes - at);
    fetch(from + at, n), own(to + at, n);
  };
  next(0);
  for (std::int64_t at = 0; at < bytes; at += part) {
    next(at + part);
    std::memcpy(to + at, from + at, static_cast<std::size_t>(std::min(part, bytes - at)));
  }
}

}  // namespace transformer::ahead
