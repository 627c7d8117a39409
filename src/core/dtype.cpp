#include "transformer/core/dtype.h"

namespace transformer {

std::string_view name_of(DType t) {
  switch (t) {
    case DType::float32: return "float32";
    case DType::bfloat16: return "bfloat16";
    case DType::float16: return "float16";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
    case DType::int8: return "int8";
  }
  return "?";
}

bfloat16::bfloat16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
  // Round to nearest even; a NaN keeps its sign and stays a (quiet) NaN instead of rounding to infinity.
  bits = static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40U : (u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}

float16::float16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000U;
  const std::uint32_t magnitude = u & 0x7fffffffU;
  std::uint32_t h = 0;
  if (magnitude > 0x7f800000U) {
    h = 0x7e00U;  // NaN
  } else if (magnitude >= 0x477ff000U) {
    h = 0x7c00U;                          // rounds to infinity
  } else if (magnitude >= 0x38800000U) {  // normal: rebias the exponent, round the mantissa
    h = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  } else if (magnitude > 0x33000000U) {                    // subnormal: value = m · 2⁻²⁴
    const std::uint32_t shift = 126U - (magnitude >> 23);  // 14 … 24
    const std::uint32_t m = (magnitude & 0x7fffffU) | 0x800000U;
    const std::uint32_t half = 1U << (shift - 1U);
    h = (m + half - 1U + ((m >> shift) & 1U)) >> shift;
  }
  bits = static_cast<std::uint16_t>(sign | h);
}

float16::operator float() const {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (mantissa << 13));
  const float value = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

}  // namespace transformer
