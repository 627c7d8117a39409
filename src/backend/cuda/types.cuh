#pragma once
// Values in registers are float32; this is how they come from and go to memory.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "transformer/core/dtype.h"
#include "transformer/core/tensor.h"

namespace transformer {

// Calls f.template operator()<T>() with the device's type of a floating dtype.
template <class F>
decltype(auto) visit_device_float(std::string_view where, DType t, F&& f) {
  switch (t) {
    case DType::float32: return f.template operator()<float>();
    case DType::bfloat16: return f.template operator()<__nv_bfloat16>();
    case DType::float16: return f.template operator()<__half>();
    default: fail(where, "needs a floating-point tensor, got {}", name_of(t));
  }
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }
template <class T>
__device__ inline T from_float(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  else return x;
}

// N values as they lie in memory, moved 16 bytes at a time where there are so many.
template <class T, int N>
struct alignas(sizeof(T) * N >= 16 ? 16 : sizeof(T) * N) Pack {
  T values[N];
};

template <class T, int N>
__device__ inline void unpack(const Pack<T, N>& pack, float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(pack.values[i]);
}
template <int N, class T>
__device__ inline void load(const T* from, float (&to)[N]) {
  unpack(*reinterpret_cast<const Pack<T, N>*>(from), to);
}
template <int N, class T>
__device__ inline void store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// Rows that may be further apart than they are long.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  __device__ T* at(std::int64_t row, std::int64_t column) const { return data + row * stride + column; }
  __device__ explicit operator bool() const { return data != nullptr; }
};

// What a kernel is given lies in the memory of a card.
inline void check_place(const Tensor& t) {
  if (t.defined() && t.device().kind != Device::Kind::cuda && t.numel() > 0)
    fail("cuda", "a kernel was given the tensor {} of {}: copy it to the card with to(ctx)", t.shape(), t.device());
}

template <class T>
Rows<const T> rows_of(const Tensor& t) {
  check_place(t);
  return {reinterpret_cast<const T*>(t.raw()), t.row_stride()};
}
template <class T>
Rows<T> mutable_rows_of(Tensor& t) {
  if (!t.defined()) return {};
  check_place(t);
  return {reinterpret_cast<T*>(t.mutable_raw()), t.row_stride()};
}
template <class T>
const T* values_of(const Tensor& t) {
  check_place(t);
  return reinterpret_cast<const T*>(t.raw());
}
template <class T>
T* mutable_values_of(Tensor& t) {
  check_place(t);
  return t.defined() ? reinterpret_cast<T*>(t.mutable_raw()) : nullptr;
}

// May rows of these be read and written eight elements at a time?
inline bool is_wide(const Tensor& t) {
  const bool strided = t.rows() > 1 && !t.is_contiguous();
  return !t.defined() || (reinterpret_cast<std::uintptr_t>(t.raw()) % 16 == 0 && (strided ? t.row_stride() : t.cols()) % 8 == 0);
}

// --- over the threads of a warp and of a block ------------------------------------------------------------------------------
struct Sum {
  static constexpr float start = 0.0F;
  __device__ static float of(float a, float b) { return a + b; }
};
struct Max {  // a NaN wins
  static constexpr float start = -INFINITY;
  __device__ static float of(float a, float b) { return a > b || a != a ? a : b; }
};

template <class Op>
__device__ inline float over_warp(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = Op::of(x, __shfl_xor_sync(0xFFFFFFFFU, x, step));
  return x;
}
// Every thread gets the result. The block is a multiple of 32 threads; all of them call.
template <class Op>
__device__ inline float over_block(float x) {
  __shared__ float parts[32];
  x = over_warp<Op>(x);
  const int warps = static_cast<int>(blockDim.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  if (warps == 1) return x;
  __syncthreads();  // the last call's parts have been read
  if (lane == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  return over_warp<Op>(lane < warps ? parts[lane] : Op::start);
}

}  // namespace transformer
