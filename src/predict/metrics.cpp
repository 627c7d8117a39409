#include "transformer/predict/metrics.h"

#include <fmt/format.h>

namespace transformer {

std::string describe(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text;
}

}  // namespace transformer
