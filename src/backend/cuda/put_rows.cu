// Rows to places that the device knows.
#include "backend/cuda/early.cuh"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

// Rows of `words` units each; a block for each.
template <class Unit>
__global__ void put_listed_rows(const Unit* x, std::int64_t x_row, Unit* y, std::int64_t y_row, const std::int32_t* to,
                                std::int64_t words) {
  wait_for_last();
  const Unit* a = x + blockIdx.x * x_row;
  Unit* b = y + to[blockIdx.x] * y_row;
  for (std::int64_t w = threadIdx.x; w < words; w += blockDim.x) b[w] = a[w];
}

}  // namespace

void CudaKernels::put_rows(Context& ctx, const Tensor& x, const Tensor& to, Tensor& y) {
  const std::int64_t size = size_of(x.dtype()), bytes = x.cols() * size, x_row = x.row_stride() * size, y_row = y.row_stride() * size;
  if (bytes == 0) return;
  const std::byte* a = x.raw();
  std::byte* b = y.mutable_raw();
  const auto together = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
      static_cast<std::uintptr_t>(x_row | y_row | bytes);
  const auto put = [&]<class Unit>() {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
    launch_early(ctx, "put_rows", put_listed_rows<Unit>, dim3(static_cast<unsigned>(x.rows())), dim3(128), 0,
                 reinterpret_cast<const Unit*>(a), x_row / unit, reinterpret_cast<Unit*>(b), y_row / unit, values_of<std::int32_t>(to),
                 bytes / unit);
  };
  if (together % 16 == 0) put.operator()<uint4>();
  else if (together % 2 == 0) put.operator()<std::uint16_t>();
  else put.operator()<std::uint8_t>();
}

}  // namespace transformer
