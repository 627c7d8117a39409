#pragma once
// What kernels find: where a thread is, shared memory, and what threads do together. A kernel is a plain function that is called once for
// each thread; a thread that waits for others gives way to them (block.cpp).

#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "emulator/types.h"

// NOLINTBEGIN: the names are CUDA's
#define __CUDA_ARCH__ (EMULATED_ARCH * 10)
#if EMULATED_ARCH == 90
#define __CUDA_ARCH_FEAT_SM90_ALL 1
#endif

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

namespace emulator {

struct Here {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern Here here;

using Where = std::source_location;

// What a lane brings to a meeting and takes from it.
struct alignas(16) Slot {
  std::byte bytes[64];
};
template <class T>
T& of(Slot& slot) {
  static_assert(sizeof(T) <= sizeof(Slot) && std::is_trivially_copyable_v<T>);
  return *reinterpret_cast<T*>(slot.bytes);
}
// Done by the last one that comes. `lanes`: 32 slots, of which those in `came` mean something.
using Together = void (*)(Slot* const* lanes, unsigned came);

// This lane's slot, which holds whatever `given` does.
Slot& slot();
// All lanes of `mask` come here, with their slots, and go on when `together` has been done.
void meet_warp(unsigned mask, Together together, const char* what, const Where& where);
void meet_block(const Where& where);
// Four warps, which begin at a multiple of four.
void meet_warpgroup(void (*together)(), const char* what, const Where& where);

[[noreturn]] void stop(const char* what);  // the kernel did what none may: the card is lost, and an Error says this

std::byte* shared_of_launch(std::size_t alignment);
template <class T>
T* shared_as(const T*, std::size_t alignment) {
  return reinterpret_cast<T*>(shared_of_launch(alignment));
}
std::uint32_t shared_address(const void* at);
void wait_for_last_grid();

}  // namespace emulator

#define threadIdx (::emulator::here.thread)
#define blockIdx (::emulator::here.block)
#define blockDim (::emulator::here.threads)
#define gridDim (::emulator::here.blocks)

inline void __syncthreads(const emulator::Where& where = emulator::Where::current()) { emulator::meet_block(where); }
inline void __syncwarp(unsigned mask = ~0U, const emulator::Where& where = emulator::Where::current()) {
  emulator::meet_warp(
      mask, [](emulator::Slot* const*, unsigned) {}, "__syncwarp", where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, const emulator::Where& where = emulator::Where::current()) {
  struct Lane {
    T value;
    int from;
  };
  const auto lane = static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
  emulator::of<Lane>(emulator::slot()) = {value, lane ^ distance};
  emulator::meet_warp(
      mask,
      [](emulator::Slot* const* lanes, unsigned came) {
    T given[32];
    std::memset(given, 0xFF, sizeof given);  // of lanes that are not here
    for (unsigned rest = came; rest != 0; rest &= rest - 1) {
      const int l = std::countr_zero(rest);
      given[l] = emulator::of<Lane>(*lanes[l]).value;
    }
    for (unsigned rest = came; rest != 0; rest &= rest - 1) {
      Lane& l = emulator::of<Lane>(*lanes[std::countr_zero(rest)]);
      l.value = given[l.from & 31];
    }
      },
      "__shfl_xor_sync", where);
  return emulator::of<Lane>(emulator::slot()).value;
}

// One value of all lanes' values.
template <class T, class Join>
T over_lanes(unsigned mask, T value, Join, const char* what, const emulator::Where& where) {
  emulator::of<T>(emulator::slot()) = value;
  emulator::meet_warp(
      mask,
      [](emulator::Slot* const* lanes, unsigned came) {
    T all = emulator::of<T>(*lanes[std::countr_zero(came)]);
    for (unsigned rest = came & (came - 1); rest != 0; rest &= rest - 1) all = Join()(all, emulator::of<T>(*lanes[std::countr_zero(rest)]));
    for (unsigned rest = came; rest != 0; rest &= rest - 1) emulator::of<T>(*lanes[std::countr_zero(rest)]) = all;
      },
      what, where);
  return emulator::of<T>(emulator::slot());
}
inline int __any_sync(unsigned mask, int value, const emulator::Where& where = emulator::Where::current()) {
  return over_lanes(
      mask, value != 0 ? 1 : 0, [](int a, int b) { return a | b; }, "__any_sync", where);
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, const emulator::Where& where = emulator::Where::current()) {
  return over_lanes(
      mask, value, [](unsigned a, unsigned b) { return a > b ? a : b; }, "__reduce_max_sync", where);
}

template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline std::size_t __cvta_generic_to_shared(const void* at) { return emulator::shared_address(at); }

inline void cudaGridDependencySynchronize() { emulator::wait_for_last_grid(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {}

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
// NOLINTEND
