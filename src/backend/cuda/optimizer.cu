// The optimizer's step: all tensors in one launch, cut into equal chunks; how it goes (StepState) stays on the device.
#include <cmath>
#include <vector>

#include "backend/cuda/launch.h"
#include "backend/cuda/over_rows.cuh"

namespace transformer {
namespace {

constexpr int step_threads = 256, chunk_elements = 8192;

// Several tensors as one row of chunks. `chunks` counts those of a tensor and of all before it.
struct AdamTensor {
  float *w, *m, *v;
  const float* g;
  __nv_bfloat16* low;  // null: none
  std::int64_t n, chunks;
  float decay;
};
struct NormTensor {
  const float* x;
  std::int64_t n, chunks;
};

// The tensor that a chunk belongs to, and where in it the chunk begins.
template <class T>
__device__ const T& tensor_of(const T* tensors, int count, std::int64_t chunk, std::int64_t& begin) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (tensors[middle].chunks > chunk) high = middle;
    else low = middle + 1;
  }
  begin = (chunk - (low > 0 ? tensors[low - 1].chunks : 0)) * chunk_elements;
  return tensors[low];
}

// What follows from the state of the step, the same for all elements.
struct AdamFactors {
  float lr, correction1, correction2, scale;
  int skip;
};

__device__ double sum_over_block(double x) {
  __shared__ double parts[step_threads];
  parts[threadIdx.x] = x;
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
  }
  __syncthreads();
  return parts[0];
}

// In float64: exact enough for billions of elements, and squares of large values do not overflow.
__global__ void square_chunks(const NormTensor* tensors, int count, double* parts) {
  std::int64_t begin;
  const NormTensor& t = tensor_of(tensors, count, blockIdx.x, begin);
  const std::int64_t end = min(t.n, begin + chunk_elements);
  double sum = 0.0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) sum += static_cast<double>(t.x[i]) * static_cast<double>(t.x[i]);
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void sum_parts(const double* parts, std::int64_t n, double* total, StepState* state) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = sum_over_block(sum);
  if (threadIdx.x != 0) return;
  if (total != nullptr) *total = sum;
  if (state == nullptr) return;
  state->norm = sqrt(sum);
  if (!isfinite(state->norm)) state->finite = 0;
}

__global__ void add_to_loss(const float* loss, double weight, StepState* state) {
  state->loss += static_cast<double>(*loss) * weight;
  if (!isfinite(state->loss)) state->finite = 0;
}

__global__ void square_norm(StepState* state) { state->norm *= state->norm; }

__global__ void root_of_norm(StepState* state) {
  state->norm = sqrt(state->norm);
  state->finite = isfinite(state->loss) && isfinite(state->norm) ? 1 : 0;
}

__global__ void prepare_adam(const AdamArgs args, StepState* state, AdamFactors* factors) {
  factors->skip = state->finite == 0;
  if (factors->skip) return;
  ++state->updates;
  factors->lr = state->lr;
  const auto t = static_cast<double>(state->updates);
  factors->correction1 = static_cast<float>(1.0 - pow(static_cast<double>(args.beta1), t));
  factors->correction2 = static_cast<float>(1.0 - pow(static_cast<double>(args.beta2), t));
  factors->scale = args.max_norm > 0.0F ? static_cast<float>(fmin(1.0, args.max_norm / (state->norm + 1e-6))) : 1.0F;
}

__global__ void adam_chunks(const AdamTensor* tensors, int count, const AdamArgs args, const AdamFactors* factors) {
  const AdamFactors f = *factors;
  if (f.skip) return;
  std::int64_t begin;
  const AdamTensor t = tensor_of(tensors, count, blockIdx.x, begin);
  const std::int64_t end = min(t.n, begin + chunk_elements);
  const float rate = -f.lr / f.correction1, root = 1.0F / sqrtf(f.correction2);
  const float keep = args.decoupled ? 1.0F - f.lr * t.decay : 1.0F, pull = args.decoupled ? 0.0F : t.decay;
  const auto one = [&](float& w, float g, float& m, float& v) {
    g = g * f.scale + w * pull;
    m = m * args.beta1 + g * (1.0F - args.beta1);
    v = v * args.beta2 + g * g * (1.0F - args.beta2);
    w = m / (sqrtf(v) * root + args.eps) * rate + w * keep;
  };
  const bool wide = (reinterpret_cast<std::uintptr_t>(t.w) | reinterpret_cast<std::uintptr_t>(t.g) | reinterpret_cast<std::uintptr_t>(t.m) |
                     reinterpret_cast<std::uintptr_t>(t.v) | reinterpret_cast<std::uintptr_t>(t.low)) %
          16 ==
      0;
  const std::int64_t whole = wide ? begin + (end - begin) / 4 * 4 : begin;
  for (std::int64_t i = begin + threadIdx.x * 4; i < whole; i += blockDim.x * 4) {
    float w[4], g[4], m[4], v[4];
    load(t.w + i, w), load(t.g + i, g), load(t.m + i, m), load(t.v + i, v);
#pragma unroll
    for (int k = 0; k < 4; ++k) one(w[k], g[k], m[k], v[k]);
    store(w, t.w + i), store(m, t.m + i), store(v, t.v + i);
    if (t.low != nullptr) store(w, t.low + i);
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += blockDim.x) {
    one(t.w[i], t.g[i], t.m[i], t.v[i]);
    if (t.low != nullptr) t.low[i] = __float2bfloat16_rn(t.w[i]);
  }
}

// mean ← keep·mean + (1-keep)·x, or, for one that was skipped, x ← before.
struct BlendEach {
  float* mean;
  const float* x;
  float keep;
  const StepState* state;
  template <int N>
  __device__ void apply(std::int64_t, std::int64_t i) const {
    if (state->finite == 0) return;
    float a[N], b[N];
    load(mean + i, a), load(x + i, b);
#pragma unroll
    for (int k = 0; k < N; ++k) a[k] = keep * a[k] + (1.0F - keep) * b[k];
    store(a, mean + i);
  }
};
struct UndoEach {
  const float* before;
  float* x;
  const StepState* state;
  template <int N>
  __device__ void apply(std::int64_t, std::int64_t i) const {
    if (state->finite != 0) return;
    float v[N];
    load(before + i, v);
    store(v, x + i);
  }
};

StepState* state_on(Tensor& state) { return reinterpret_cast<StepState*>(state.mutable_raw()); }
const StepState* state_on(const Tensor& state) { return reinterpret_cast<const StepState*>(state.raw()); }

// The table of tensors in the device's memory.
template <class T>
Tensor table_on(Context& ctx, const std::vector<T>& tensors) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(tensors.data()), tensors.size() * sizeof(T));
  return Tensor::from<std::uint8_t>(ctx, {static_cast<std::int64_t>(bytes.size())}, bytes);
}

void sum_squares(Context& ctx, std::span<const Tensor> xs, double* total, StepState* state) {
  std::vector<NormTensor> tensors;
  std::int64_t chunks = 0;
  for (const Tensor& x : xs)
    if (x.numel() > 0) tensors.push_back({values_of<float>(x), x.numel(), chunks += blocks_of(x.numel(), chunk_elements)});
  const Tensor table = table_on(ctx, tensors);
  Tensor parts = Tensor::empty(ctx, {std::max<std::int64_t>(chunks, 1) * 8}, DType::uint8);
  auto* sums = mutable_values_of<double>(parts);
  launch(ctx, "gradient_norm", square_chunks, dim3(static_cast<unsigned>(chunks)), dim3(step_threads), 0, values_of<NormTensor>(table),
         static_cast<int>(tensors.size()), sums);
  launch(ctx, "gradient_norm", sum_parts, dim3(1), dim3(step_threads), 0, sums, chunks, total, state);
}

}  // namespace

void CudaKernels::add_loss(Context& ctx, const Tensor& loss, double weight, Tensor& state) {
  launch(ctx, "add_loss", add_to_loss, dim3(1), dim3(1), 0, values_of<float>(loss), weight, state_on(state));
}

void CudaKernels::gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state) {
  sum_squares(ctx, gradients, nullptr, state_on(state));
}

double CudaKernels::sum_of_squares(Context& ctx, std::span<const Tensor> tensors) {
  Tensor total = Tensor::empty(ctx, {8}, DType::uint8);
  sum_squares(ctx, tensors, mutable_values_of<double>(total), nullptr);
  double sum = 0.0;
  to_host(total.raw(), &sum, sizeof sum);
  return sum;
}

void CudaKernels::share_step(Context& ctx, Tensor& state) { launch(ctx, "share_step", square_norm, dim3(1), dim3(1), 0, state_on(state)); }

void CudaKernels::whole_step(Context& ctx, Tensor& state) { launch(ctx, "whole_step", root_of_norm, dim3(1), dim3(1), 0, state_on(state)); }

void CudaKernels::adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state) {
  std::vector<AdamTensor> tensors;
  std::int64_t chunks = 0;
  for (AdamSlot& s : slots)
    if (const std::int64_t n = s.weight.numel(); n > 0)
      tensors.push_back({mutable_values_of<float>(s.weight), mutable_values_of<float>(s.m), mutable_values_of<float>(s.v),
                         values_of<float>(s.gradient), mutable_values_of<__nv_bfloat16>(s.low_precision), n,
                         chunks += blocks_of(n, chunk_elements), s.weight_decay});
  const Tensor table = table_on(ctx, tensors);
  Tensor factors = Tensor::empty(ctx, {sizeof(AdamFactors)}, DType::uint8);
  launch(ctx, "adam", prepare_adam, dim3(1), dim3(1), 0, args, state_on(state), mutable_values_of<AdamFactors>(factors));
  launch(ctx, "adam", adam_chunks, dim3(static_cast<unsigned>(chunks)), dim3(step_threads), 0, values_of<AdamTensor>(table),
         static_cast<int>(tensors.size()), args, values_of<AdamFactors>(factors));
}

void CudaKernels::blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state) {
  for (std::size_t i = 0; i < means.size(); ++i)
    over_rows(ctx, "blend", extent_of(means[i], xs[i]),
              BlendEach{mutable_values_of<float>(means[i]), values_of<float>(xs[i]), keep, state_on(state)});
}

void CudaKernels::undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state) {
  for (std::size_t i = 0; i < xs.size(); ++i)
    over_rows(ctx, "undo_if_skipped", extent_of(xs[i], before[i]),
              UndoEach{values_of<float>(before[i]), mutable_values_of<float>(xs[i]), state_on(state)});
}

}  // namespace transformer
