#pragma once
// How elementwise kernels walk over their operands: rows of equal length that may be strided, split evenly over
// the threads whatever the number of rows.

#include <algorithm>
#include <cstdint>

#include "transformer/core/context.h"
#include "transformer/core/parallel.h"
#include "transformer/core/tensor.h"

namespace transformer {

// The rows and columns of operands of one shape; one long row when all of them are contiguous.
struct RowRange { std::int64_t rows, cols; };

template <class... Others>
RowRange common_rows(const Tensor& x, const Others&... others) {
  if ((x.is_contiguous() && ... && others.is_contiguous())) return {1, x.numel()};
  return {x.rows(), x.cols()};
}

// Less work than this is not worth another thread.
inline constexpr std::int64_t elementwise_grain = 16384;

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

}  // namespace transformer
