#pragma once
// Copies to shared memory and products that run beside the computation, and the products of a warp.

#include <cstddef>
#include <cstdint>

#include "emulator/device.h"

namespace emulator {

struct Fragment {
  std::uint32_t r[4];
};

void fetch_ahead(const void* line);
void copy_async(std::uint32_t to, const void* from, std::size_t bytes, std::size_t there);  // zeros beyond what is there
void commit_copies();
void wait_for_copies();

Fragment load_matrices(std::uint32_t address, bool turned, const Where& where);
void multiply_add(float (&c)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1, const Where& where);

// Of four warps: sums [64, columns] (= or +=) left [64, 16] · right [16, columns].
struct Product {
  float* sums;  // this thread's: columns / 8 fragments
  int columns;
  bool in_registers = false;  // the left operand
  Fragment held{};
  std::uint64_t left = 0, right = 0;  // descriptors of what lies in shared memory
  bool right_turned = false;          // rows of memory are rows of the operand; else its columns
  bool adds = false;
};
void issue_product(const Product& product);
void begin_products();
void commit_products();
void wait_for_products(const Where& where);

}  // namespace emulator
