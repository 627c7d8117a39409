#pragma once
// Stacks that take turns on one thread of the host.

#include <cstddef>

namespace emulator {

// A place to go on from.
struct Turn {
  void* at = nullptr;
};
// Goes on at `to`; comes back when somebody goes on at `from`.
void go_on(Turn& from, Turn& to);
// A stack on which `run` begins when it is first gone on with; it never returns.
Turn begin_on(std::byte* stack, std::size_t bytes, void (*run)());

}  // namespace emulator
