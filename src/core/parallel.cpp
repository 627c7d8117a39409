#include "transformer/core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace transformer {

int hardware_threads() { return omp_get_max_threads(); }

void detail::run_parallel(int threads, std::int64_t n, std::int64_t grain, RangeBody call, void* body) {
  if (n <= 0) return;
  const std::int64_t parts = std::min<std::int64_t>(threads, (n + grain - 1) / std::max<std::int64_t>(grain, 1));
  if (parts <= 1 || omp_in_parallel() != 0) return call(body, 0, n);
  std::exception_ptr error;
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
  for (std::int64_t part = 0; part < parts; ++part) {
    try {
      call(body, n * part / parts, n * (part + 1) / parts);
    } catch (...) {
#pragma omp critical(transformer_parallel_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace transformer
