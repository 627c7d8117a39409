#pragma once
// The thread pool: OpenMP's, because oneDNN uses the same one and two pools would fight for the cores.

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace transformer {

int hardware_threads();  // what OMP_NUM_THREADS or the machine offers

namespace detail {
using RangeBody = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_parallel(int threads, std::int64_t n, std::int64_t grain, RangeBody call, void* body);
}  // namespace detail

// Splits [0, n) into at most `threads` equal contiguous ranges of at least `grain` items and calls
// body(begin, end) on each, in parallel. The split depends on n, grain and threads alone, so results are
// reproducible. An exception thrown by a body is rethrown here. Nested calls run serially.
template <class Body>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_parallel(
      threads, n, grain, [](void* f, std::int64_t b, std::int64_t e) { (*static_cast<Plain*>(f))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace transformer
