// Cross-entropy of a block of logits: a block of threads for each row.
#include <algorithm>

#include "backend/cuda/activations.cuh"
#include "backend/cuda/known.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

constexpr int most_threads = 512;

// Calls f(column, values) for all elements of a row that are this thread's; wide: eight at a time, then what is left.
template <class T, class F>
__device__ void for_row(const T* row, std::int64_t cols, bool wide, F&& f) {
  const int whole = wide ? static_cast<int>(cols / 8 * 8) : 0;
#pragma unroll 4
  for (int c = static_cast<int>(threadIdx.x) * 8; c < whole; c += static_cast<int>(blockDim.x) * 8) {
    float v[8];
    load(row + c, v);
    f(c, v);
  }
  for (int c = whole + static_cast<int>(threadIdx.x); c < static_cast<int>(cols); c += static_cast<int>(blockDim.x)) {
    float v[1] = {to_float(row[c])};
    f(c, v);
  }
}

// exp(x - top); where there is nothing but -inf, nothing is taken away.
template <class T>
struct ExpBelow {
  float top;  // times log2(e) where it is rough
  __device__ explicit ExpBelow(float t) : top(t == -INFINITY ? 0.0F : rough ? t * log2_e : t) {}
  __device__ float operator()(float x) const {
    if constexpr (rough) return RoughMath::power_of_two(fmaf(x, log2_e, -top));
    else return expf(x - top);
  }
  static constexpr bool rough = std::is_same_v<MathOf<T>, RoughMath>;
  static constexpr float log2_e = 1.44269504F;
};

__device__ std::int64_t divisor_of(const std::int64_t* count) { return count == nullptr || *count < 1 ? 1 : *count; }

// With p = softmax(z): loss = -(1-ε)·log p_t - ε·mean(log p), and its gradient p - (1-ε)·onehot(t) - ε/n, divided by count.
// held: the row is kept in shared memory after it has been read.
template <class T, class Index, bool held>
__global__ void __launch_bounds__(most_threads, 2)
    cross_entropy_rows(Rows<T> logits, std::int64_t cols, const Index* targets, std::int64_t ignore, float smoothing, bool want_gradient,
                       const std::int64_t* count, float* losses, bool wide) {
  SHARED_OF_LAUNCH(memory, uint4);
  const std::int64_t row = blockIdx.x, target = targets[row];
  T *z = logits.at(row, 0), *kept = held ? reinterpret_cast<T*>(memory) : z;
  if (target == ignore) {
    if (want_gradient)
      for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) z[c] = from_float<T>(0.0F);
    if (threadIdx.x == 0) losses[row] = 0.0F;
    return;
  }
  const float at_target = to_float(z[target]);
  // One pass: each thread keeps its largest value, and its sum of exponentials below that.
  float top = -INFINITY, sum = 0.0F, total = 0.0F;
  for_row(z, cols, wide, [&](int c, const auto& v) {
    constexpr int n = sizeof(v) / sizeof(float);
    if constexpr (held) store(v, kept + c);  // read again by the same thread
    float largest = v[0];
#pragma unroll
    for (int i = 1; i < n; ++i) largest = fmaxf(largest, v[i]);  // a NaN shows in the sum
    if (largest > top) sum *= ExpBelow<T>(largest)(top), top = largest;
    const ExpBelow<T> below(top);
#pragma unroll
    for (int i = 0; i < n; ++i) sum += below(v[i]);
    if (smoothing != 0.0F) {
#pragma unroll
      for (int i = 0; i < n; ++i) total += v[i];
    }
  });
  const float row_top = over_block<Max>(top);
  sum = over_block<Sum>(sum * ExpBelow<T>(row_top)(top));
  if (smoothing != 0.0F) total = over_block<Sum>(total);
  const double scale = 1.0 / static_cast<double>(divisor_of(count)), n = static_cast<double>(cols);
  if (threadIdx.x == 0) {
    double loss = (1.0 - smoothing) * (static_cast<double>(row_top) - at_target) + log(static_cast<double>(sum));
    if (smoothing != 0.0F) loss += smoothing * (static_cast<double>(row_top) - total / n);
    losses[row] = static_cast<float>(loss);
  }
  if (!want_gradient) return;
  const float factor = static_cast<float>(scale / sum), uniform = static_cast<float>(scale * smoothing / n);
  const ExpBelow<T> below(row_top);
  for_row(kept, cols, wide, [&](int c, auto& v) {
    constexpr int k = sizeof(v) / sizeof(float);
#pragma unroll
    for (int i = 0; i < k; ++i) v[i] = below(v[i]) * factor - uniform;
    store(v, z + c);
  });
  // The target's own entry anew: subtracting from the rounded p would lose digits where p is near 1.
  __syncthreads();
  if (threadIdx.x == 0) {
    const double p = exp(static_cast<double>(at_target) - row_top) / sum;
    z[target] = from_float<T>(static_cast<float>(scale * (p - (1.0 - smoothing) - smoothing / n)));
  }
}

__global__ void sum_losses(const float* losses, std::int64_t n, const std::int64_t* count, float* loss) {
  __shared__ double parts[1024];
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += static_cast<double>(losses[i]);
  parts[threadIdx.x] = sum;
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  }
  if (threadIdx.x == 0) *loss = static_cast<float>(parts[0] / static_cast<double>(divisor_of(count)));
}

// Bytes of a row; two of the largest fit on a multiprocessor of a card for data centres. Others have less: 1 KiB stays for the sums.
constexpr std::size_t least_held = 16 << 10, most_held = 110 << 10, beside_held = 1 << 10;

template <class Index>
__global__ void count_rows(const Index* targets, std::int64_t n, std::int64_t ignore, std::int64_t* count) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += targets[i] != ignore;
  atomicAdd(&total, mine);  // integers: any order gives the same
  __syncthreads();
  if (threadIdx.x == 0) *count = static_cast<std::int64_t>(total);
}

}  // namespace

// Products want columns in multiples of 64: seven times faster than 50,257 of them. Portions are large and equal: a gigabyte is little on
// a card.
Tensor CudaKernels::logits_room(Context& ctx, std::int64_t rows, std::int64_t classes, DType dtype) {
  const std::int64_t width = std::max<std::int64_t>(blocks_of(classes, 64), 1) * 64;
  const std::int64_t within = std::max<std::int64_t>((std::int64_t{1} << 30) / (width * size_of(dtype)), 64);
  const std::int64_t portion = blocks_of(blocks_of(rows, blocks_of(rows, within)), 64) * 64;
  return Tensor::empty(ctx, {std::min(rows, portion), width}, dtype);
}

void CudaKernels::count_targets(Context& ctx, std::string_view op, const Tensor& targets, std::int64_t ignore, std::int64_t classes,
                                Tensor& count) {
  visit_index(op, targets.dtype(), [&]<class Index>() {
    if (known_on_host(targets)) {
      const std::vector<Index> values = targets.to_vector<Index>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto t = static_cast<std::int64_t>(values[i]);
        if (t != ignore && (t < 0 || t >= classes))
          fail(op, "target {} at position {} is outside [0, {}) and is not the ignored {}", t, i, classes, ignore);
      }
    }
    launch(ctx, "count_targets", count_rows<Index>, dim3(1), dim3(1024), 0, values_of<Index>(targets), targets.numel(), ignore,
           mutable_values_of<std::int64_t>(count));
  });
}

void CudaKernels::cross_entropy(Context& ctx, Tensor& logits, const Tensor& targets, std::int64_t ignore, float smoothing,
                                bool want_gradient, const Tensor& count, Tensor& losses) {
  const std::size_t bytes = static_cast<std::size_t>(logits.cols()) * size_of(logits.dtype());
  const unsigned threads = logits.cols() >= 8192 ? most_threads : logits.cols() >= 1024 ? 128 : 32;
  visit_device_float("cross_entropy", logits.dtype(), [&]<class T>() {
    visit_index("cross_entropy", targets.dtype(), [&]<class Index>() {
      const auto* z = reinterpret_cast<const T*>(logits.raw());
      const bool wide = reinterpret_cast<std::uintptr_t>(z) % 16 == 0 && logits.row_stride() % 8 == 0;
      const auto rows = [&](auto kernel, std::size_t shared) {
        launch(ctx, "cross_entropy", kernel, dim3(static_cast<unsigned>(logits.rows())), dim3(threads), shared,
               want_gradient ? mutable_rows_of<T>(logits) : Rows<T>{const_cast<T*>(z), logits.row_stride()}, logits.cols(),
               values_of<Index>(targets), ignore, smoothing, want_gradient, values_of<std::int64_t>(count),
               mutable_values_of<float>(losses), wide);
      };
      // Rows that the caches would lose before they are read again.
      if (want_gradient && bytes >= least_held && bytes <= std::min(most_held, cuda(ctx).most_shared_memory() - beside_held))
        rows(cross_entropy_rows<T, Index, true>, blocks_of(bytes, 16) * 16);
      else rows(cross_entropy_rows<T, Index, false>, 0);
    });
  });
}

void CudaKernels::total_loss(Context& ctx, const Tensor& losses, const Tensor& count, Tensor& loss) {
  launch(ctx, "total_loss", sum_losses, dim3(1), dim3(1024), 0, values_of<float>(losses), losses.numel(), values_of<std::int64_t>(count),
         mutable_values_of<float>(loss));
}

}  // namespace transformer
