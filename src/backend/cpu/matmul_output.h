#pragma once
// What stands behind the sums of a product: from float32 in a thread's own memory to where and what they are to be.

#include <cstdint>

#include "backend/kernels.h"

namespace transformer {

// c [rows, cols] = activation(alpha · sums + bias), or c += alpha · sums.
struct MatmulOutput {
  const float* sums = nullptr;
  std::int64_t sums_row = 0, c_row = 0;  // elements from one row to the next
  const void* bias = nullptr;            // [cols]; null: none
  void* c = nullptr;
  std::int64_t rows = 0, cols = 0;
  DType out = DType::float32, bias_type = DType::float32;
  float alpha = 1.0F;
  bool accumulate = false;
  Activation activation = Activation::none;
};
void write_output(const MatmulOutput& output);

}  // namespace transformer
