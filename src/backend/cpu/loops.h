#pragma once
// How elementwise kernels walk over their operands: rows of equal length that may be strided, split evenly over
// the threads whatever the number of rows; and nests of loops for broadcasts and transposes.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "transformer/core/context.h"
#include "transformer/core/parallel.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Less work than this, in elements, is not worth another thread.
inline constexpr std::int64_t elementwise_grain = 16384;

// The rows and columns of operands of one shape; one long row when all of them are contiguous.
struct RowRange {
  std::int64_t rows, cols;
};

template <class... Others>
RowRange common_rows(const Tensor& x, const Others&... others) {
  if ((x.is_contiguous() && ... && others.is_contiguous())) return {1, x.numel()};
  return {x.rows(), x.cols()};
}

// Calls f(row, first, count) for pieces of rows that together cover the range, in parallel.
template <class F>
void for_row_pieces(Context& ctx, RowRange range, F&& f) {
  parallel_for(ctx.threads(), range.rows * range.cols, elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t row = begin / range.cols, first = begin % range.cols;
    for (; begin < end; ++row, first = 0) {
      const std::int64_t count = std::min(range.cols - first, end - begin);
      f(row, first, count);
      begin += count;
    }
  });
}

// One loop of a nest over two operands: its length and their steps, in elements.
struct Loop {
  std::int64_t n, x, y;
};

// Merges neighbours that run on into each other on both sides and drops loops of length 1.
inline std::vector<Loop> merge_loops(const std::vector<Loop>& nest) {
  std::vector<Loop> merged;
  for (const Loop& l : nest) {
    if (l.n == 1) continue;
    if (!merged.empty() && merged.back().x == l.n * l.x && merged.back().y == l.n * l.y) merged.back() = {merged.back().n * l.n, l.x, l.y};
    else merged.push_back(l);
  }
  return merged;
}

inline std::int64_t count_of(const std::vector<Loop>& nest) {
  std::int64_t n = 1;
  for (const Loop& l : nest) n *= l.n;
  return n;
}

// Where the operands are at step `at` of the nest's count_of() steps (the last loop turns fastest).
struct Offsets {
  std::int64_t x = 0, y = 0;
};
inline Offsets offsets_at(const std::vector<Loop>& nest, std::int64_t at) {
  Offsets to;
  for (std::size_t i = nest.size(); i-- > 0; at /= nest[i].n) {
    const std::int64_t k = at % nest[i].n;
    to.x += k * nest[i].x;
    to.y += k * nest[i].y;
  }
  return to;
}

}  // namespace transformer
