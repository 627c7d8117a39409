#pragma once
// Matrix products by cuBLASLt. The library is opened when the first card is used: it is large, and a program that stays on the CPU
// neither waits for it nor needs it.

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backend/cuda/kernels.h"
#include "core/shared/hash.h"

namespace transformer {

// c = alpha · op(a) · op(b) (+ bias), or c += that; row-major, strides in elements.
struct Product {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t a_row = 0, b_row = 0, c_row = 0;        // from one row in memory to the next
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;  // from one matrix to the next
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
  DType in = DType::float32, out = DType::float32;
  int alignment = 256;  // of all pointers, in bytes
  friend bool operator==(const Product&, const Product&) = default;
};

class CublasLt {
 public:
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // bias: [n] of c's type, where the product has one.
  void run(Context& ctx, Product product, float alpha, const void* a, const void* b, void* c, const void* bias);
  // Times the algorithms of all products that were asked for so far: lines for algorithms.h.
  std::string measure(Context& ctx);

 private:
  struct Functions;
  struct Plan;  // layouts and the chosen algorithm
  struct Hash {
    std::size_t operator()(const Product& p) const;
  };
  std::shared_ptr<Plan> plan_of(const Product& product);

  std::unique_ptr<Functions> functions_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  bool measured_here_ = false;  // is algorithms.h of this card and this version of the library?
  std::mutex mutex_;            // of plans_
  std::unordered_map<Product, std::shared_ptr<Plan>, Hash> plans_;
};

}  // namespace transformer
