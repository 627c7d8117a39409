#pragma once
// oneDNN's matmul behind one small class: the only file pair that knows oneDNN, version 2 or 3. It computes tiles (matmul_tiles.h) on
// one thread each; the threads are ours.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/kernels.h"

namespace transformer {

class MatmulCache {
 public:
  MatmulCache();
  ~MatmulCache();

  // c [batch, m, n] = activation(alpha · a · b + bias) or c += alpha · a · b, over strided matrices.
  struct Problem {
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t a_row = 0, a_col = 1, a_batch = 0;  // strides in elements
    std::int64_t b_row = 0, b_col = 1, b_batch = 0;  // b_batch 0: one b for all
    std::int64_t c_row = 0, c_batch = 0;
    DType in = DType::float32, out = DType::float32, bias = DType::float32;
    bool has_bias = false, accumulate = false;
    float alpha = 1.0F;
    Activation activation = Activation::none;
  };
  struct Product {
    Problem problem;
    const void *a = nullptr, *b = nullptr, *bias = nullptr;
    void* c = nullptr;
    // Of a product without batch: called for every part of c that is there, by the thread that computed it, while the part is in its
    // cache: the first row and column, the rows and columns.
    std::function<void(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols)> after = {};
  };
  // Side by side: no product reads what another writes. Beside them, on the same threads, body(piece) for each of `pieces`.
  void run(Context& ctx, std::span<const Product> products, std::int64_t pieces = 0, const std::function<void(std::int64_t)>& body = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Has the processor instructions for products of bfloat16? Without them oneDNN imitates them with float32, or has none.
bool processor_multiplies_bfloat16();

}  // namespace transformer
