#pragma once
// Products of bfloat16 on the tile registers (AMX) of Intel's server processors: sixteen rows of sixteen sums each, to which one
// instruction adds 32 products apiece. oneDNN 2.6 did not choose them for our tiles; here operands lie as
// they like, and what comes next is asked for ahead.

#include <cstddef>
#include <cstdint>

#include "transformer/core/dtype.h"

namespace transformer::amx {

// Has the processor such registers, and does the system let this process use them? Asks once.
bool available();

// For tests on other processors (with AVX-512): the instructions are imitated, one number after the other.
bool can_imitate();
void imitate(bool on);

// Lines of an operand: rows of a or columns of b. The number of line l and depth k is at from[l · line + k · step]; one of both is 1.
struct Lines {
  const bfloat16* from;
  std::int64_t line, step;
};

// c [rows, cols] = a · b in float32, on this thread alone. c has room for width(rows) rows, which are width(cols) apart. `memory` holds
// scratch_bytes(rows), from an address that divides by 64.
void multiply(const Lines& a, const Lines& b, std::int64_t rows, std::int64_t cols, std::int64_t depth, float* c, std::byte* memory);
std::size_t scratch_bytes(std::int64_t rows);

constexpr std::int64_t side = 32;  // lines that are computed at a time: two tiles of 16
constexpr std::int64_t width(std::int64_t lines) { return (lines + side - 1) / side * side; }

}  // namespace transformer::amx
