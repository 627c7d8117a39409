#pragma once
// bfloat16 and float16, rounded to nearest even.

#include <bit>
#include <cstdint>

#include "emulator/types.h"
#include "transformer/core/dtype.h"

// NOLINTBEGIN: the names are CUDA's
struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __half {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {transformer::bfloat16(x).bits}; }
inline float __half2float(__half x) { return static_cast<float>(std::bit_cast<transformer::float16>(x)); }
inline __half __float2half_rn(float x) { return {transformer::float16(x).bits}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {__bfloat162float(x.x), __bfloat162float(x.y)}; }
// NOLINTEND
