#pragma once
// Products of packed operands, on one thread: parts of both are brought into the order in which they are multiplied, and what comes next
// is asked for while they are. bfloat16 on the tile registers (AMX) of Intel's server processors: sixteen rows of sixteen sums, to which
// one instruction adds 32 products apiece. float32 with AVX-512. oneDNN has both too, but computes while it waits for memory less well
// where there are many cores, and uses AMX for few layouts; here operands lie as they like.

#include <cstddef>
#include <cstdint>

#include "transformer/core/dtype.h"

namespace transformer::packed {

// Has the processor the instructions for operands of that type, and does the system let this process use them?
bool multiplies(DType type);

// For tests on processors with AVX-512 alone: AMX is imitated, one number after the other.
bool can_imitate();
void imitate(bool on);

// Lines of an operand: rows of a or columns of b. The number of line l and depth k is at from[l · line + k · step]; one of both is 1.
struct Lines {
  const void* from;
  std::int64_t line, step;
};

// c [rows, cols] = a · b in float32, for a and b of one type. c has room for width(rows) rows, which are width(cols) apart. `memory` holds
// scratch_bytes(…), from an address that divides by 64.
void multiply(DType type, const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c,
              std::byte* memory);
std::size_t scratch_bytes(DType type, std::int64_t rows);

constexpr std::int64_t side = 32;  // columns that are computed at a time
constexpr std::int64_t width(std::int64_t lines) { return (lines + side - 1) / side * side; }

}  // namespace transformer::packed
