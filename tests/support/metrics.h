#pragma once

#include "transformer/train/task.h"

namespace transformer::test {

// Of what was measured.
inline std::vector<std::string> names_of(const Metrics& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names;
}

}  // namespace transformer::test
