#pragma once
// A stable sort of pairs by some bits of their keys.

#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* room, std::size_t& bytes, const Key* keys, Key* sorted_keys, const Value* values, Value* sorted_values,
                               int n, int first_bit, int end_bit, cudaStream_t stream) {
    if (room == nullptr) {
      bytes = 1 + sizeof(Key) * static_cast<std::size_t>(n);
      return cudaSuccess;
    }
    if (bytes < 1 + sizeof(Key) * static_cast<std::size_t>(n)) return cudaErrorInvalidValue;
    return emulator::enqueue(
        "sort",
        [=] {
      const auto bits = [&](int i) { return static_cast<std::uint64_t>(keys[i]) << (64 - end_bit) >> (64 - end_bit + first_bit); };
      std::vector<int> order(static_cast<std::size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return bits(a) < bits(b); });
      for (int i = 0; i < n; ++i) sorted_keys[i] = keys[order[i]], sorted_values[i] = values[order[i]];
        },
        stream);
  }
};

}  // namespace cub
