#pragma once
// What kernels and benchmarks may know of the threads behind parallel_for.

#include <cstdint>

namespace transformer {

// Inside a body of parallel_for: a number below its `threads` that no other thread of the same call has, for memory of one's own.
int parallel_seat();

// What parallel_for has done in this process so far.
struct ParallelStats {
  std::int64_t regions = 0;  // calls that were cut into pieces
  std::int64_t threads = 0;  // summed over them: how many threads each was worth
  std::int64_t started = 0;  // threads that were started
};
ParallelStats parallel_stats();

}  // namespace transformer
