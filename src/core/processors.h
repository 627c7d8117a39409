#pragma once
// How many processors this process may use.

#include <filesystem>
#include <span>

namespace transformer {

// Of the processors in `allowed`, one for each core where the system says which share one; no more than the quota of the control
// groups that this process is in, rounded up. At least 1. `root` is "/" but in tests.
int usable_processors(std::span<const int> allowed, const std::filesystem::path& root);

}  // namespace transformer
