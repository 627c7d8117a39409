#pragma once
// Products of few rows with a large matrix: what decoding one token at a time is made of.

#include <cstdint>

#include "backend/kernels.h"

namespace transformer {

inline constexpr std::int64_t few_rows = 8;  // more than this are better off with oneDNN

// c [m, n] = activation(a [m, k] · w [n, k]ᵀ + bias [n]); a, w and c are float32 or bfloat16. Row r of c depends on row r of a alone, to
// the last bit, whatever m is.
struct FewRows {
  std::int64_t m = 0, n = 0, k = 0;
  const void *a = nullptr, *w = nullptr, *bias = nullptr;  // bias may be null
  void* c = nullptr;
  std::int64_t a_row = 0, w_row = 0, c_row = 0;  // elements from one row to the next
  DType type = DType::float32, bias_type = DType::float32;
  Activation activation = Activation::none;
};
void multiply_few_rows(Context& ctx, const FewRows& p);

}  // namespace transformer
