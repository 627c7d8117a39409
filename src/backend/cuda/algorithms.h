#pragma once
// Products whose fastest algorithm is not the one that cuBLASLt names first. Measured, never chosen while a program runs: the same sizes
// give the same bits. `transformer_bench cuda --tune` prints the lines for the products of its steps.

#include <array>
#include <cstdint>
#include <string_view>

namespace transformer {

constexpr std::string_view measured_card = "NVIDIA H200";
constexpr std::size_t measured_version = 0;  // cublasLtGetVersion()

struct MeasuredProduct {
  std::int64_t m, n, k;
  char layout;  // n: a·b, t: a·bᵀ, w: aᵀ·b
  bool accumulate, bias, narrow;  // narrow: bfloat16 result, else float32; the factors are bfloat16
  int algorithm;                  // of the eight that cuBLASLt names
};

constexpr std::array<MeasuredProduct, 0> measured_products{};

}  // namespace transformer
