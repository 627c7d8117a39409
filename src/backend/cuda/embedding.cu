// Rows of a table by id, and the gradient: rows added back to the table, those of one id in the order in which they came.
#include <cub/device/device_radix_sort.cuh>

#include "backend/cuda/known.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

// Error for the first id that is no row of the table. Ids that were made on the device are right by construction.
void check_ids(const Tensor& ids, std::int64_t table_rows) {
  if (!known_on_host(ids)) return;
  visit_index("embedding", ids.dtype(), [&]<class Index>() {
    const std::vector<Index> values = ids.to_vector<Index>();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] < 0 || static_cast<std::int64_t>(values[i]) >= table_rows)
        fail("embedding", "id {} at position {} of {} is out of range: the table has {} rows", values[i], i, ids.shape(), table_rows);
  });
}

template <class Index>
struct IdRows {
  const Index* data;
  std::int64_t cols, stride;
  __device__ std::int64_t operator[](std::int64_t i) const { return data[i / cols * stride + i % cols]; }
};

template <int N, class Index, class X, class Y>
__global__ void gather_rows(IdRows<Index> ids, std::int64_t n, Rows<const X> table, float scale, Rows<Y> y, std::int64_t cols) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y; i < n; i += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t id = ids[i];
    for (std::int64_t c = threadIdx.x * N; c < cols; c += blockDim.x * N) {
      float v[N];
      load(table.at(id, c), v);
#pragma unroll
      for (int k = 0; k < N; ++k) v[k] *= scale;
      store(v, y.at(i, c));
    }
  }
}

template <class Index>
__global__ void list_ids(IdRows<Index> ids, std::int32_t* keys, std::int32_t* places, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) keys[i] = static_cast<std::int32_t>(ids[i]), places[i] = static_cast<std::int32_t>(i);
}

constexpr int chunk = 16;  // sorted ids that one block adds up

// A run of equal ids within a chunk goes straight to the table. One that comes from the chunk before, or goes on in the next, leaves its
// part: parts[chunk][0] where it comes from before, parts[chunk][1] where it begins here.
template <class T>
__global__ void add_runs(const std::int32_t* ids, const std::int32_t* places, std::int64_t n, Rows<const T> dy, float scale,
                         std::int64_t padding, Rows<float> table, float* parts, std::int64_t cols) {
  const std::int64_t first = std::int64_t{blockIdx.x} * chunk, last = min(n, first + chunk);
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    for (std::int64_t i = first; i < last;) {
      const std::int64_t begin = i;
      const std::int32_t id = ids[i];
      float sum = 0.0F;
      for (; i < last && ids[i] == id; ++i) sum += to_float(*dy.at(places[i], c));
      if (id == padding) continue;
      sum *= scale;
      const bool from_before = begin == first && first > 0 && ids[first - 1] == id, goes_on = i == last && last < n && ids[last] == id;
      if (from_before) parts[(std::int64_t{blockIdx.x} * 2) * cols + c] = sum;
      else if (goes_on) parts[(std::int64_t{blockIdx.x} * 2 + 1) * cols + c] = sum;
      else *table.at(id, c) += sum;
    }
  }
}

// For the chunk in which a long run begins: its parts, one after the other.
__global__ void add_run_parts(const std::int32_t* ids, std::int64_t n, std::int64_t padding, Rows<float> table, const float* parts,
                              std::int64_t cols) {
  const std::int64_t last = (std::int64_t{blockIdx.x} + 1) * chunk;
  if (last >= n) return;
  const std::int32_t id = ids[last];
  const std::int64_t first = last - chunk;
  if (ids[last - 1] != id || id == padding || (first > 0 && ids[first - 1] == id && ids[first] == id)) return;  // it does not begin here
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = parts[(std::int64_t{blockIdx.x} * 2 + 1) * cols + c];
    for (std::int64_t next = blockIdx.x + 1; next * chunk < n && ids[next * chunk] == id; ++next) sum += parts[next * 2 * cols + c];
    *table.at(id, c) += sum;
  }
}

}  // namespace

void CudaKernels::embedding(Context& ctx, const Tensor& ids, const Tensor& table, float scale, Tensor& y) {
  check_ids(ids, table.dim(0));
  const std::int64_t n = ids.numel(), cols = table.cols();
  if (n == 0 || cols == 0) return;
  visit_index("embedding", ids.dtype(), [&]<class Index>() {
    visit_device_float("embedding", table.dtype(), [&]<class X>() {
      visit_device_float("embedding", y.dtype(), [&]<class Y>() {
        const IdRows<Index> list{values_of<Index>(ids), ids.cols(), ids.row_stride()};
        const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>(blocks_of(n, 4), 65536))), block(64, 4);
        if (is_wide(table) && is_wide(y) && cols % 8 == 0)
          launch(ctx, "embedding", gather_rows<8, Index, X, Y>, grid, block, 0, list, n, rows_of<X>(table), scale, mutable_rows_of<Y>(y),
                 cols);
        else
          launch(ctx, "embedding", gather_rows<1, Index, X, Y>, grid, block, 0, list, n, rows_of<X>(table), scale, mutable_rows_of<Y>(y),
                 cols);
      });
    });
  });
}

void CudaKernels::embedding_backward(Context& ctx, const Tensor& ids, const Tensor& dy, float scale, std::int64_t padding, Tensor& dtable,
                                     bool accumulate) {
  check_ids(ids, dtable.dim(0));
  if (!accumulate) fill(ctx, 0.0F, dtable);
  const std::int64_t n = ids.numel(), cols = dtable.cols();
  if (n == 0 || cols == 0) return;
  Tensor list = Tensor::empty(ctx, {4, n}, DType::int32);  // ids, places, and both sorted by id
  auto* keys = mutable_values_of<std::int32_t>(list);
  visit_index("embedding", ids.dtype(), [&]<class Index>() {
    launch(ctx, "embedding_backward", list_ids<Index>, dim3(static_cast<unsigned>(blocks_of(n, 256))), dim3(256), 0,
           IdRows<Index>{values_of<Index>(ids), ids.cols(), ids.row_stride()}, keys, keys + n, n);
  });
  int bits = 1;
  while (bits < 31 && (std::int64_t{1} << bits) < dtable.dim(0)) ++bits;
  std::size_t bytes = 0;
  const auto sort = [keys, n, bits](void* room, std::size_t& bytes, cudaStream_t stream) {
    check_cuda(
        cub::DeviceRadixSort::SortPairs(room, bytes, keys, keys + 2 * n, keys + n, keys + 3 * n, static_cast<int>(n), 0, bits, stream),
        "embedding_backward");
  };
  use();
  sort(nullptr, bytes, stream());
  Tensor room = Tensor::empty(ctx, {static_cast<std::int64_t>(std::max<std::size_t>(bytes, 1))}, DType::uint8);
  launch_with(
      ctx, "embedding_backward",
      [sort, bytes, room = room.mutable_raw()](cudaStream_t stream) {
    std::size_t size = bytes;
    sort(room, size, stream);
      },
      keys, n, bits, bytes, room.raw());
  const std::int64_t chunks = blocks_of(n, chunk);
  Tensor parts = Tensor::empty(ctx, {chunks, 2, cols});
  const std::int32_t *sorted = keys + 2 * n, *places = keys + 3 * n;
  const unsigned threads = cols >= 256 ? 256 : cols >= 64 ? 64 : 32;
  visit_device_float("embedding_backward", dy.dtype(), [&]<class T>() {
    Rows<const T> rows = rows_of<T>(dy);
    launch(ctx, "embedding_backward", add_runs<T>, dim3(static_cast<unsigned>(chunks)), dim3(threads), 0, sorted, places, n, rows, scale,
           padding, mutable_rows_of<float>(dtable), mutable_values_of<float>(parts), cols);
  });
  launch(ctx, "embedding_backward", add_run_parts, dim3(static_cast<unsigned>(chunks)), dim3(threads), 0, sorted, n, padding,
         mutable_rows_of<float>(dtable), values_of<float>(parts), cols);
}

}  // namespace transformer
