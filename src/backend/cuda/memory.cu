// Filling, copying, converting and adding: whatever only moves numbers.
#include <limits>
#include <vector>

#include "backend/cpu/loops.h"
#include "backend/cuda/over_rows.cuh"

namespace transformer {
namespace {

template <class F>
void visit_device_any(DType t, F&& f) {
  switch (t) {
    case DType::float32: return f.template operator()<float>();
    case DType::bfloat16: return f.template operator()<__nv_bfloat16>();
    case DType::float16: return f.template operator()<__half>();
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    case DType::uint8: return f.template operator()<std::uint8_t>();
    case DType::int8: return f.template operator()<std::int8_t>();
  }
}

// Floats become integers by dropping the fraction, bounded by what the integer holds (NaN: 0); integers wrap.
template <class To, class From>
__device__ To converted(From value) {
  if constexpr (std::is_integral_v<From>) {
    if constexpr (std::is_integral_v<To>) return static_cast<To>(value);
    else return from_float<To>(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To>) {
    const float f = truncf(to_float(value));
    if (isnan(f)) return 0;
    if (f >= static_cast<float>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (f <= static_cast<float>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(f);
  } else {
    return from_float<To>(to_float(value));
  }
}

template <class T>
struct Fill {
  float value;
  Rows<T> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.values[i] = converted<T>(value);
    *reinterpret_cast<Pack<T, N>*>(y.at(row, column)) = pack;
  }
};

template <class X, class Y>
struct Convert {
  Rows<const X> x;
  Rows<Y> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    const Pack<X, N> from = *reinterpret_cast<const Pack<X, N>*>(x.at(row, column));
    Pack<Y, N> to;
#pragma unroll
    for (int i = 0; i < N; ++i) to.values[i] = converted<Y>(from.values[i]);
    *reinterpret_cast<Pack<Y, N>*>(y.at(row, column)) = to;
  }
};

template <class X, class Y>
struct AddTo {
  Rows<const X> x;
  Rows<Y> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float a[N], b[N];
    load(x.at(row, column), a);
    load(y.at(row, column), b);
#pragma unroll
    for (int i = 0; i < N; ++i) b[i] += a[i];
    store(b, y.at(row, column));
  }
};

// A nest of loops over x and y; the last turns fastest.
struct Nest {
  static constexpr int most = 8;
  int loops = 0;
  std::int64_t n[most] = {}, x[most] = {}, y[most] = {};  // all of it: passes compare arguments byte by byte
  explicit Nest(const std::vector<Loop>& from) {
    for (const Loop& l : from) n[loops] = l.n, x[loops] = l.x, y[loops] = l.y, ++loops;
  }
  __device__ void at(std::int64_t index, std::int64_t& x_offset, std::int64_t& y_offset) const {
    for (int i = loops - 1; i >= 0; --i) {
      const std::int64_t rest = index / n[i], k = index - rest * n[i];
      x_offset += k * x[i], y_offset += k * y[i];
      index = rest;
    }
  }
};

// One element of y by one thread; loops that stay on it (sums) run inside.
template <class T>
__global__ void copy_strided(const T* x, T* y, Nest nest, Nest sums, std::int64_t n, std::int64_t terms, bool accumulate) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= n) return;
  std::int64_t x_offset = 0, y_offset = 0;
  nest.at(index, x_offset, y_offset);
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>) {
    if (accumulate) {
      float total = to_float(y[y_offset]);
      for (std::int64_t i = 0; i < terms; ++i) {
        std::int64_t from = x_offset, unused = 0;
        sums.at(i, from, unused);
        total = to_float(from_float<T>(total + to_float(x[from])));
      }
      y[y_offset] = from_float<T>(total);
      return;
    }
  }
  std::int64_t unused = 0;
  if (terms > 1) sums.at(terms - 1, x_offset, unused);  // the last one stays
  y[y_offset] = x[x_offset];
}

// A block turns tiles of 32 × 32: x is dense along i, y along j, over a nest of further loops.
template <class T>
__global__ void copy_turned(const T* x, T* y, Nest outer, std::int64_t ni, std::int64_t nj, std::int64_t x_j, std::int64_t y_i,
                            std::int64_t tiles_i, std::int64_t tiles_j) {
  __shared__ T tile[32][33];
  std::int64_t index = blockIdx.x;
  const std::int64_t tile_j = index % tiles_j * 32;
  index /= tiles_j;
  const std::int64_t tile_i = index % tiles_i * 32;
  std::int64_t x_offset = 0, y_offset = 0;
  outer.at(index / tiles_i, x_offset, y_offset);
  for (unsigned r = threadIdx.y; r < 32; r += 8)
    if (tile_j + r < nj && tile_i + threadIdx.x < ni) tile[r][threadIdx.x] = x[x_offset + (tile_j + r) * x_j + tile_i + threadIdx.x];
  __syncthreads();
  for (unsigned r = threadIdx.y; r < 32; r += 8)
    if (tile_i + r < ni && tile_j + threadIdx.x < nj) y[y_offset + (tile_i + r) * y_i + tile_j + threadIdx.x] = tile[threadIdx.x][r];
}

template <class F>
void visit_size(DType t, F&& f) {
  switch (size_of(t)) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

// Rows of `words` units each.
template <class Unit>
__global__ void copy_listed_rows(const Unit* x, std::int64_t x_row, Unit* y, std::int64_t y_row, const std::int32_t* from_to,
                                 std::int64_t rows, std::int64_t words) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < rows; i += std::int64_t{gridDim.x} * blockDim.y) {
    const Unit* a = x + from_to[i] * x_row;
    Unit* b = y + from_to[rows + i] * y_row;
    for (std::int64_t w = threadIdx.x; w < words; w += blockDim.x) b[w] = a[w];
  }
}

}  // namespace

void CudaKernels::fill(Context& ctx, float value, Tensor& y) {
  visit_device_any(y.dtype(), [&]<class T>() { over_rows(ctx, "fill", extent_of(y), Fill<T>{value, mutable_rows_of<T>(y)}); });
}

void CudaKernels::copy(Context& ctx, const Tensor& x, Tensor& y) {
  if (x.dtype() == y.dtype())
    return visit_size(x.dtype(), [&]<class T>() {
      over_rows(ctx, "copy", extent_of(x, y), Convert<T, T>{rows_of<T>(x), mutable_rows_of<T>(y)});
    });
  visit_device_any(x.dtype(), [&]<class X>() {
    visit_device_any(y.dtype(), [&]<class Y>() {
      if constexpr (!std::is_same_v<X, Y>) over_rows(ctx, "copy", extent_of(x, y), Convert<X, Y>{rows_of<X>(x), mutable_rows_of<Y>(y)});
    });
  });
}

void CudaKernels::add_to(Context& ctx, const Tensor& x, Tensor& y) {
  visit_device_float("add_to", x.dtype(), [&]<class X>() {
    visit_device_float("add_to", y.dtype(), [&]<class Y>() {
      over_rows(ctx, "add_to", extent_of(x, y), AddTo<X, Y>{rows_of<X>(x), mutable_rows_of<Y>(y)});
    });
  });
}

void CudaKernels::strided_copy(Context& ctx, const Shape& extent, const Tensor& x, std::int64_t x_offset, const Shape& x_strides, Tensor& y,
                               std::int64_t y_offset, const Shape& y_strides, bool accumulate) {
  if (extent.numel() == 0) return;
  std::vector<Loop> nest, sums;
  for (int i = 0; i < extent.rank(); ++i) nest.push_back({extent[i], x_strides[i], y_strides[i]});
  std::stable_sort(nest.begin(), nest.end(), [](const Loop& a, const Loop& b) { return a.y > b.y; });
  nest = merge_loops(nest);
  while (!nest.empty() && nest.back().y == 0) sums.insert(sums.begin(), nest.back()), nest.pop_back();
  const auto launch_plain = [&]<class T>() {
    const std::int64_t n = count_of(nest);
    launch(ctx, "strided_copy", copy_strided<T>, dim3(static_cast<unsigned>(blocks_of(n, 256))), dim3(256), 0, values_of<T>(x) + x_offset,
           mutable_values_of<T>(y) + y_offset, Nest(nest), Nest(sums), n, count_of(sums), accumulate);
  };
  if (accumulate) return visit_device_float("strided_copy", x.dtype(), launch_plain);
  // Where x is dense along another loop than y, tiles are turned in shared memory.
  std::size_t dense = nest.size();
  if (sums.empty() && nest.size() > 1 && nest.back().y == 1 && nest.back().x > 1)
    for (std::size_t i = 0; i + 1 < nest.size(); ++i)
      if (nest[i].x == 1 && nest[i].n >= 16 && nest.back().n >= 16) dense = i;
  visit_size(x.dtype(), [&]<class T>() {
    if (dense == nest.size()) return launch_plain.template operator()<T>();
    const Loop i = nest[dense], j = nest.back();
    std::vector<Loop> outer = nest;
    outer.pop_back();
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(dense));
    const std::int64_t tiles_i = blocks_of(i.n, 32), tiles_j = blocks_of(j.n, 32);
    launch(ctx, "strided_copy", copy_turned<T>, dim3(static_cast<unsigned>(count_of(outer) * tiles_i * tiles_j)), dim3(32, 8), 0,
           values_of<T>(x) + x_offset, mutable_values_of<T>(y) + y_offset, Nest(outer), i.n, j.n, j.x, i.y, tiles_i, tiles_j);
  });
}

void CudaKernels::copy_rows(Context& ctx, const Tensor& x, std::span<const std::int64_t> from, Tensor& y,
                            std::span<const std::int64_t> to) {
  const std::int64_t size = size_of(x.dtype()), bytes = x.cols() * size, n = static_cast<std::int64_t>(from.size());
  if (bytes == 0 || n == 0) return;
  std::vector<std::int32_t> lists;
  lists.reserve(2 * from.size());
  for (const auto& list : {from, to})
    for (const std::int64_t row : list) lists.push_back(static_cast<std::int32_t>(row));
  const Tensor there = Tensor::from<std::int32_t>(ctx, {2 * n}, lists);
  const std::int64_t x_row = x.row_stride() * size, y_row = y.row_stride() * size;
  const std::byte* a = x.raw();
  std::byte* b = y.mutable_raw();
  const auto together = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
      static_cast<std::uintptr_t>(x_row | y_row | bytes);
  const auto move = [&]<class Unit>() {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
    launch(ctx, "copy_rows", copy_listed_rows<Unit>, dim3(static_cast<unsigned>(std::min<std::int64_t>(blocks_of(n, 4), 65536))),
           dim3(64, 4), 0, reinterpret_cast<const Unit*>(a), x_row / unit, reinterpret_cast<Unit*>(b), y_row / unit,
           values_of<std::int32_t>(there), n, bytes / unit);
  };
  if (together % 16 == 0) move.operator()<uint4>();
  else if (together % 4 == 0) move.operator()<std::uint32_t>();
  else if (together % 2 == 0) move.operator()<std::uint16_t>();
  else move.operator()<std::uint8_t>();
}

}  // namespace transformer
