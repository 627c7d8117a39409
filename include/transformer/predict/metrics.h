#pragma once
// What was measured of a model, by name.

#include <string>
#include <utility>
#include <vector>

namespace transformer {

using Metrics = std::vector<std::pair<std::string, double>>;  // "loss" → 2.31, "bleu" → 38.4, …

std::string describe(const Metrics& metrics);  // "loss 2.31, bleu 38.4"

}  // namespace transformer
