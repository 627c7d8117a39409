#pragma once
// In the place of src/backend/cuda/ptx.cuh: what its instructions do. Copies and products that run beside the computation are done when
// they are waited for, or, in a run with a seed, some of them at once (matrix_units.cpp).

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "emulator/matrix_units.h"

namespace transformer::ptx {

using std::uint32_t;
using Fragment = emulator::Fragment;
using Where = emulator::Where;

inline float flushed(float x) { return std::abs(x) < FLT_MIN ? std::copysign(0.0F, x) : x; }
inline float power_of_two(float x) { return flushed(std::exp2(flushed(x))); }
inline float inverse(float x) { return flushed(1.0F / flushed(x)); }

inline void fetch_ahead(const void* line) { emulator::fetch_ahead(line); }
inline void copy_async(uint32_t to, const void* from, bool there) { emulator::copy_async(to, from, 16, there ? 16 : 0); }
inline void copy_async_8(uint32_t to, const void* from, bool there) { emulator::copy_async(to, from, 8, there ? 8 : 0); }
inline void commit_copies() { emulator::commit_copies(); }
inline void wait_for_copies() { emulator::wait_for_copies(); }

inline Fragment load_matrices(uint32_t address, const Where& where = Where::current()) {
  return emulator::load_matrices(address, false, where);
}
inline Fragment load_matrices_turned(uint32_t address, const Where& where = Where::current()) {
  return emulator::load_matrices(address, true, where);
}
inline void multiply_add(float (&c)[4], const Fragment& a, uint32_t b0, uint32_t b1, const Where& where = Where::current()) {
  emulator::multiply_add(c, a, b0, b1, where);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

inline void show_copies() {}
inline constexpr std::uint64_t kDescriptorHigh = 1 << 30 | 1024 >> 4;
inline uint32_t descriptor(uint32_t tile, int panel) { return (tile & 0x3FFFFU) >> 4 | static_cast<uint32_t>(panel >> 4) << 16; }

template <int kStart>
inline void issue_rows(float (&c)[8][4], uint32_t a, uint32_t b) {
  emulator::issue_product({.sums = &c[0][0],
                           .columns = 64,
                           .left = kDescriptorHigh << 32 | (a + (kStart >> 4)),
                           .right = kDescriptorHigh << 32 | (b + (kStart >> 4)),
                           .adds = kStart != 0});
}
template <int kStart, int N>
inline void issue_columns(float (&c)[N][4], const Fragment& a, uint32_t b) {
  emulator::issue_product({.sums = &c[0][0],
                           .columns = 8 * N,
                           .in_registers = true,
                           .held = a,
                           .right = kDescriptorHigh << 32 | (b + (kStart >> 4)),
                           .right_turned = true,
                           .adds = true});
}
inline void begin_products() { emulator::begin_products(); }
inline void commit_products() { emulator::commit_products(); }
inline void wait_for_products(const Where& where = Where::current()) { emulator::wait_for_products(where); }
template <int N>
inline void pin(float (&)[N][4]) {}

#endif

}  // namespace transformer::ptx
