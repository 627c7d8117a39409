#pragma once
// How much memory the program holds at most between two points: every allocation is counted.

#include <cstddef>

namespace transformer::fuzz {

void start_counting();     // from nothing
std::size_t most_bytes();  // held at one time since then

}  // namespace transformer::fuzz
