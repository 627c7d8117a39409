#pragma once
// Element types. float32 is the type of master weights, reductions and losses; bfloat16 and float16
// are storage types whose arithmetic is done in float32.

#include <bit>
#include <cstdint>
#include <string_view>

#include "transformer/core/error.h"

namespace transformer {

enum class DType : std::uint8_t { float32, bfloat16, float16, int32, int64, uint8, int8 };

// bfloat16: the upper half of a float32, rounded to nearest even.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// IEEE half precision, rounded to nearest even.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::float32:
    case DType::int32: return 4;
    case DType::int64: return 8;
    case DType::bfloat16:
    case DType::float16: return 2;
    case DType::uint8:
    case DType::int8: return 1;
  }
  return 0;
}
constexpr bool is_float(DType t) { return t <= DType::float16; }
std::string_view name_of(DType t);

// Calls f.template operator()<T>() with the C++ type of a floating dtype; `where` names the op in the error.
//   visit_float("gelu", x.dtype(), [&]<class T>() { kernel(x.data<T>(), …); });
template <class F>
decltype(auto) visit_float(std::string_view where, DType t, F&& f) {
  switch (t) {
    case DType::float32: return f.template operator()<float>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::float16: return f.template operator()<float16>();
    default: fail(where, "needs a floating-point tensor, got {}", name_of(t));
  }
}

// The same for the integer types that hold token ids, targets and positions.
template <class F>
decltype(auto) visit_index(std::string_view where, DType t, F&& f) {
  switch (t) {
    case DType::int32: return f.template operator()<std::int32_t>();
    case DType::int64: return f.template operator()<std::int64_t>();
    default: fail(where, "needs int32 or int64 indices, got {}", name_of(t));
  }
}

}  // namespace transformer

template <>
struct fmt::formatter<transformer::DType> : transformer::detail::PlainFormatter {
  auto format(transformer::DType t, fmt::format_context& ctx) const { return write(transformer::name_of(t), ctx); }
};
