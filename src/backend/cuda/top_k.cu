#include "backend/cuda/top_k.cuh"

namespace transformer {

using namespace largest;
static_assert(kMost == Kernels::most_top_k);

void CudaKernels::top_k(Context& ctx, const Tensor& x, std::int64_t k, bool log, Tensor& values, Tensor& ids) {
  const std::int64_t rows = x.rows(), cols = x.cols(), blocks = std::max<std::int64_t>(1, blocks_of(cols, kBlock));
  Tensor sums, pairs;
  if (log) sums = Tensor::empty(ctx, {rows, blocks, 2});
  if (blocks > 1) pairs = Tensor::empty(ctx, {rows, blocks, k}, DType::int64);
  const TopKTo to{mutable_values_of<Pair>(pairs),
                  reinterpret_cast<float2*>(mutable_values_of<float>(sums)),
                  mutable_values_of<float>(values),
                  mutable_values_of<std::int32_t>(ids),
                  static_cast<int>(k),
                  static_cast<int>(blocks),
                  log};
  visit_device_float("top_k", x.dtype(), [&]<class T>() {
    launch_early(ctx, "top_k", top_k_columns<T>, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows)), dim3(kThreads), 0,
                 rows_of<T>(x), static_cast<int>(cols), to);
  });
  if (blocks > 1) launch_early(ctx, "top_k", top_k_join, dim3(static_cast<unsigned>(rows)), dim3(kThreads), 0, to);
}

}  // namespace transformer
