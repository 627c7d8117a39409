#pragma once
// Products whose fastest algorithm is not the one that cuBLASLt names first. Measured, never chosen while a program runs: the same sizes
// give the same bits. `transformer_bench cuda --tune` prints the lines for the products of its steps.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace transformer {

constexpr std::string_view measured_card = "NVIDIA H200";
constexpr std::size_t measured_version = 130100;  // cublasLtGetVersion()

struct MeasuredProduct {
  std::int64_t m, n, k;
  char layout;                    // n: a·b, t: a·bᵀ, w: aᵀ·b
  bool accumulate, bias, narrow;  // narrow: bfloat16 result, else float32; the factors are bfloat16
  int algorithm;                  // of the eight that cuBLASLt names
};

constexpr MeasuredProduct measured_products[] = {
    // clang-format off
    {256, 1000, 768, 't', false, true, true, 7},  // 0.008 ms, the first 0.009
    {1000, 768, 256, 'w', false, false, false, 7},  // 0.008 ms, the first 0.008
    {2304, 768, 32768, 'w', false, false, false, 2},  // 0.162 ms, the first 0.171
    {8192, 50304, 768, 't', false, false, true, 7},  // 0.791 ms, the first 0.896
    {12288, 512, 37000, 'n', false, false, true, 2},  // 0.623 ms, the first 0.643
    {24576, 512, 512, 'n', true, false, true, 5},  // 0.025 ms, the first 0.029
    {24576, 512, 512, 'n', false, false, true, 5},  // 0.024 ms, the first 0.026
    {24576, 512, 512, 't', false, true, true, 5},  // 0.024 ms, the first 0.026
    {24576, 512, 1024, 'n', false, false, true, 4},  // 0.038 ms, the first 0.040
    {24576, 512, 1024, 'n', true, false, true, 5},  // 0.040 ms, the first 0.044
    {24576, 512, 1536, 'n', true, false, true, 5},  // 0.057 ms, the first 0.059
    {24576, 512, 2048, 't', false, true, true, 5},  // 0.075 ms, the first 0.080
    {24576, 1024, 512, 't', false, true, true, 5},  // 0.044 ms, the first 0.052
    {24576, 1536, 512, 't', false, true, true, 5},  // 0.067 ms, the first 0.071
    {24576, 2048, 512, 'n', false, false, true, 4},  // 0.072 ms, the first 0.082
    {24576, 2048, 512, 't', false, false, true, 4},  // 0.072 ms, the first 0.087
    {32768, 768, 768, 'n', false, false, true, 5},  // 0.056 ms, the first 0.060
    {32768, 768, 768, 't', false, true, true, 5},  // 0.057 ms, the first 0.062
    {32768, 768, 3072, 't', false, true, true, 6},  // 0.221 ms, the first 0.233
    {32768, 768, 3072, 'n', false, false, true, 6},  // 0.220 ms, the first 0.229
    {32768, 2304, 768, 't', false, true, true, 7},  // 0.159 ms, the first 0.202
    {32768, 3072, 768, 't', false, false, true, 6},  // 0.205 ms, the first 0.245
    {32768, 3072, 768, 'n', false, false, true, 6},  // 0.199 ms, the first 0.242
    {50176, 768, 768, 't', false, true, true, 6},  // 0.092 ms, the first 0.113
    {50432, 768, 768, 't', false, true, true, 6},  // 0.092 ms, the first 0.114
    {50432, 768, 768, 'n', false, false, true, 6},  // 0.090 ms, the first 0.105
    {50432, 768, 3072, 't', false, true, true, 6},  // 0.342 ms, the first 0.363
    {50432, 768, 3072, 'n', false, false, true, 6},  // 0.348 ms, the first 0.364
    {50432, 2304, 768, 't', false, true, true, 1},  // 0.284 ms, the first 0.296
    {50432, 3072, 768, 't', false, false, true, 7},  // 0.320 ms, the first 0.378
    {50432, 3072, 768, 'n', false, false, true, 7},  // 0.322 ms, the first 0.392
    // clang-format on
};

}  // namespace transformer
