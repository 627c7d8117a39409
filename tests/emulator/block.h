#pragma once
// The block that runs, for the files of this folder.

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/device.h"
#include "emulator/matrix_units.h"
#include "fiber.h"

namespace emulator {

struct PendingCopy {
  std::byte* to;
  const void* from;
  std::size_t bytes, there;
};
struct PendingProduct {
  Product product;
  std::vector<float> sums;  // as they were
};

// A thread of the block.
struct Thread {
  Turn turn;
  unsigned number = 0;  // within the block
  uint3 index{};
  Slot slot;
  bool waited_for_last = false;
  const char* waits_at = nullptr;  // null: it does not wait
  Where where;
  std::vector<PendingCopy> copies;
  std::vector<PendingProduct> products;
};

Thread& this_thread();
// Those of this thread's four warps that are still there, by number; null: not.
std::vector<Thread*> warpgroup();
std::byte* shared_at(std::uint32_t address, std::size_t bytes, std::size_t alignment);  // stops the kernel where it is out of bounds

}  // namespace emulator
