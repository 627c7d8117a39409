#pragma once
// Work on several threads. One pool for the whole process, shared by all contexts: its threads wait briefly for the next piece of work,
// then sleep.

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace transformer {

// Threads that are worth starting: the processors this process may run on (affinity mask, quota of a container), one for each core where
// cores have several. OMP_NUM_THREADS, where it is set, says otherwise.
int hardware_threads();

namespace detail {
using RangeBody = void (*)(void* body, std::int64_t begin, std::int64_t end);
void run_parallel(int threads, std::int64_t n, std::int64_t grain, RangeBody call, void* body);
void run_each(int threads, std::int64_t n, RangeBody call, void* body);
}  // namespace detail

// Splits [0, n) into contiguous ranges of at least `grain` items and calls body(begin, end) on each, on at most `threads` threads. The
// split depends on n, grain and threads alone, so results are reproducible; which thread gets which range does not matter. There are more
// ranges than threads where there is enough work: a thread that the system holds up does not hold up the others. An exception thrown by
// a body is rethrown here. Nested calls run serially.
template <class Body>
void parallel_for(int threads, std::int64_t n, std::int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_parallel(
      threads, n, grain, [](void* f, std::int64_t b, std::int64_t e) { (*static_cast<Plain*>(f))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// For few items that are long and not alike: body(i) for each of them. A thread takes one at a time, so that the longest should come
// first; all else is as above.
template <class Body>
void parallel_each(int threads, std::int64_t n, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_each(
      threads, n,
      [](void* f, std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) (*static_cast<Plain*>(f))(i);
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace transformer
