// Filling, copying, converting and adding: whatever only moves numbers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/memory.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/ahead.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

// y = x or y += x, between any two float types.
void ConvertFloats(Context& ctx, const Tensor& x, Tensor& y, bool add) {
  visit_float("copy", x.dtype(), [&]<class X>() HWY_ATTR {
    visit_float("copy", y.dtype(), [&]<class Y>() HWY_ATTR {
      const X* from = x.data<X>();
      Y* to = y.mutable_data<Y>();
      for_row_pieces(ctx, common_rows(x, y),
                     [=, xs = x.row_stride(), ys = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) HWY_ATTR {
        const X* a = from + row * xs + first;
        Y* b = to + row * ys + first;
        if (add) {
          ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
            StoreSome(whole, hn::Add(LoadSome(whole, b + i, m), LoadSome(whole, a + i, m)), b + i, m);
          });
        } else {
          ForVectors(n,
                     [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, LoadSome(whole, a + i, m), b + i, m); });
        }
      });
    });
  });
}

// y[i · y_step] += x[i · x_step]
template <class T>
void AddLine(const void* from, std::int64_t x_step, void* to, std::int64_t y_step, std::int64_t n) {
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  if (x_step == 1 && y_step == 1) {
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, hn::Add(LoadSome(whole, y + i, m), LoadSome(whole, x + i, m)), y + i, m);
    });
  } else if (x_step == 0 && y_step == 1) {
    const VF one = hn::Set(DF(), static_cast<float>(*x));
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, hn::Add(LoadSome(whole, y + i, m), one), y + i, m);
    });
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = T(static_cast<float>(y[i * y_step]) + static_cast<float>(x[i * x_step]));
  }
}

using LineFunction = void (*)(const void* x, std::int64_t x_step, void* y, std::int64_t y_step, std::int64_t n);
LineFunction AddLineOf(DType dtype) {
  return visit_float("strided_copy", dtype, []<class T>() -> LineFunction { return AddLine<T>; });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cmath>
#include <limits>
#include <vector>

namespace transformer {

HWY_EXPORT(ConvertFloats);
HWY_EXPORT(AddLineOf);

namespace {

template <class F>
void visit_any(DType t, F&& f) {
  switch (t) {
    case DType::float32: return f.template operator()<float>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::float16: return f.template operator()<float16>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::uint8: return f.template operator()<std::uint8_t>();
    case DType::int8: return f.template operator()<std::int8_t>();
  }
}

// Floats become integers by dropping the fraction, bounded by what the integer holds (NaN: 0); integers wrap.
template <class To, class From>
To convert(From value) {
  if constexpr (std::is_integral_v<From>) {
    if constexpr (std::is_integral_v<To>) return static_cast<To>(value);
    else return To(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To>) {
    const float f = std::trunc(static_cast<float>(value));
    if (std::isnan(f)) return 0;
    if (f >= static_cast<float>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (f <= static_cast<float>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(f);
  } else {
    return To(static_cast<float>(value));
  }
}

using LineFunction = void (*)(const void* x, std::int64_t x_step, void* y, std::int64_t y_step, std::int64_t n);

template <class T>
void copy_line(const void* from, std::int64_t x_step, void* to, std::int64_t y_step, std::int64_t n) {
  const T* HWY_RESTRICT x = static_cast<const T*>(from);
  T* HWY_RESTRICT y = static_cast<T*>(to);
  if (x_step == 1 && y_step == 1) std::memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
  else if (x_step == 0 && y_step == 1) std::fill_n(y, n, *x);
  else if (y_step == 1)
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i * x_step];
  else
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = x[i * x_step];
}

// A tile of `rows` lines of x, dense and x_step apart, turned into the columns of `to`, whose lines are tile_side long.
inline constexpr std::int64_t tile_side = 32;
using TurnFunction = void (*)(const void* from, std::int64_t x_step, std::int64_t rows, std::int64_t cols, void* to);

template <class T>
void turn_tile(const void* from, std::int64_t x_step, std::int64_t rows, std::int64_t cols, void* to) {
  const T* HWY_RESTRICT x = static_cast<const T*>(from);
  T* HWY_RESTRICT y = static_cast<T*>(to);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) y[j * tile_side + i] = x[i * x_step + j];
}

TurnFunction turn_function(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return turn_tile<std::uint8_t>;
    case 2: return turn_tile<std::uint16_t>;
    case 4: return turn_tile<std::uint32_t>;
    default: return turn_tile<std::uint64_t>;
  }
}

LineFunction line_function(DType dtype, bool accumulate) {
  if (accumulate) return HWY_DYNAMIC_DISPATCH(AddLineOf)(dtype);
  switch (size_of(dtype)) {
    case 1: return copy_line<std::uint8_t>;
    case 2: return copy_line<std::uint16_t>;
    case 4: return copy_line<std::uint32_t>;
    default: return copy_line<std::uint64_t>;
  }
}

// The loops of a strided copy, y steps from large to small so that y is written in order.
std::vector<Loop> nest_in_order_of_y(const Shape& extent, const Shape& x_strides, const Shape& y_strides) {
  std::vector<Loop> nest;
  for (int i = 0; i < extent.rank(); ++i) nest.push_back({extent[i], x_strides[i], y_strides[i]});
  std::stable_sort(nest.begin(), nest.end(), [](const Loop& a, const Loop& b) { return a.y > b.y; });
  return merge_loops(nest);
}

}  // namespace

void CpuKernels::fill(Context& ctx, float value, Tensor& y) {
  visit_any(y.dtype(), [&]<class T>() {
    T* to = y.mutable_data<T>();
    const T v = convert<T>(value);
    for_row_pieces(ctx, common_rows(y), [=, stride = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) {
      std::fill_n(to + row * stride + first, n, v);
    });
  });
}

void CpuKernels::copy(Context& ctx, const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype()) {
    const std::byte* from = x.raw();
    std::byte* to = y.mutable_raw();
    for_row_pieces(
        ctx, common_rows(x, y),
        [=, size = size_of(x.dtype()), xs = x.row_stride(), ys = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) {
      ahead::copy(from + (row * xs + first) * size, to + (row * ys + first) * size, n * size);
        });
  } else if (is_float(x.dtype()) && is_float(y.dtype())) {
    HWY_DYNAMIC_DISPATCH(ConvertFloats)(ctx, x, y, false);
  } else {
    visit_any(x.dtype(), [&]<class X>() {
      visit_any(y.dtype(), [&]<class Y>() {
        const X* from = x.data<X>();
        Y* to = y.mutable_data<Y>();
        for_row_pieces(ctx, common_rows(x, y),
                       [=, xs = x.row_stride(), ys = y.row_stride()](std::int64_t row, std::int64_t first, std::int64_t n) {
          for (std::int64_t i = first; i < first + n; ++i) to[row * ys + i] = convert<Y>(from[row * xs + i]);
        });
      });
    });
  }
}

void CpuKernels::add_to(Context& ctx, const Tensor& x, Tensor& y) { HWY_DYNAMIC_DISPATCH(ConvertFloats)(ctx, x, y, true); }

void CpuKernels::strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                              std::int64_t y_offset, const Shape& y_strides, bool accumulate) {
  if (extent.numel() == 0) return;
  const std::int64_t size = size_of(x.dtype());
  const std::byte* from = x.raw() + x_offset * size;
  std::byte* to = y.mutable_raw() + y_offset * size;
  const LineFunction line = line_function(x.dtype(), accumulate);
  const TurnFunction turn = turn_function(x.dtype());

  // Loops that stay on one element of y (sums) run one after the other; threads share the others.
  std::vector<Loop> nest = nest_in_order_of_y(extent, x_strides, y_strides), sums;
  while (!nest.empty() && nest.back().y == 0) sums.push_back(nest.back()), nest.pop_back();

  // The two inner loops: along lines of y, and across them. Where x is dense across the lines instead of along them,
  // tiles are turned on the way, so that each cache line of x and of y is touched once.
  Loop along{1, 0, 1}, across{1, 0, 0};
  if (!nest.empty()) along = nest.back(), nest.pop_back();
  std::size_t dense = nest.size();
  if (along.x != 0 && along.x != 1)
    for (std::size_t i = 0; i < nest.size(); ++i)
      if (nest[i].x == 1) dense = i;
  const bool tiled = dense < nest.size();
  if (!nest.empty()) {
    const auto pick = nest.begin() + static_cast<std::ptrdiff_t>(tiled ? dense : nest.size() - 1);
    across = *pick;
    nest.erase(pick);
  }
  const std::int64_t length = std::min<std::int64_t>(along.n, tiled ? tile_side : elementwise_grain);
  const std::int64_t lines = std::min<std::int64_t>(across.n, tiled ? tile_side : std::max<std::int64_t>(1, 4096 / length));

  // A block of lines · length elements is the unit of work.
  const std::int64_t blocks_along = (along.n + length - 1) / length, blocks_across = (across.n + lines - 1) / lines;
  nest.push_back({blocks_across, lines * across.x, lines * across.y});
  nest.push_back({blocks_along, length * along.x, length * along.y});
  const std::int64_t blocks = count_of(nest), grain = std::max<std::int64_t>(1, elementwise_grain / (length * lines));
  for (std::int64_t sum = 0; sum < count_of(sums); ++sum) {
    const std::byte* x_sum = from + offsets_at(sums, sum).x * size;
    parallel_for(ctx.threads(), blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const Offsets at = offsets_at(nest, block);
        const std::int64_t n = std::min(length, along.n - block % blocks_along * length);
        const std::int64_t m = std::min(lines, across.n - block / blocks_along % blocks_across * lines);
        const std::byte* a = x_sum + at.x * size;
        std::byte* b = to + at.y * size;
        alignas(64) std::byte tile[tile_side * tile_side * sizeof(std::int64_t)];
        if (tiled) turn(a, along.x, n, m, tile);
        for (std::int64_t i = 0; i < m; ++i, b += across.y * size) {
          if (tiled) line(tile + i * tile_side * size, 1, b, along.y, n);
          else line(a + i * across.x * size, along.x, b, along.y, n);
        }
      }
    });
  }
}

void CpuKernels::copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y, std::span<const std::int64_t> to) {
  const std::int64_t size = size_of(x.dtype()), bytes = x.cols() * size;
  if (bytes == 0) return;
  const std::byte* source = x.raw();
  std::byte* target = y.mutable_raw();
  const std::int64_t x_row = x.row_stride() * size, y_row = y.row_stride() * size;
  const std::int64_t grain = std::max<std::int64_t>(1, elementwise_grain / x.cols());
  parallel_for(ctx.threads(), static_cast<std::int64_t>(from.size()), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      std::memcpy(target + to[i] * y_row, source + from[i] * x_row, static_cast<std::size_t>(bytes));
  });
}

}  // namespace transformer
#endif  // HWY_ONCE
