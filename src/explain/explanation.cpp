#include "transformer/explain/explanation.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "transformer/core/error.h"
#include "transformer/explain/rollout.h"

namespace transformer {
namespace {

template <class Named>
const Named& named(const std::vector<Named>& all, std::string_view name, const char* what) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Named& n : all) names.push_back(n.name);
  fail("explain", "there is no {} '{}': expected {}", what, name, fmt::join(names, ", "));
}

// -1: the last, or all.
std::int64_t checked(std::int64_t given, std::int64_t count, const char* what) {
  if (given < -1 || given >= count) fail("explain", "there is no {} {}: the model has {}, from 0", what, given, count);
  return given;
}

}  // namespace

const SeenAttention& Explanation::attention(std::string_view name) const {
  if (attentions.empty()) fail("explain", "the model has no attention that can be shown");
  return name.empty() ? attentions.back() : named(attentions, name, "attention");
}
const SeenSide& Explanation::side(std::string_view name) const { return named(sides, name, "side"); }
const SeenStack& Explanation::stack(std::string_view name) const {
  if (stacks.empty()) fail("explain", "{} has no single stack of layers", architecture);
  return name.empty() ? stacks.front() : named(stacks, name, "stack");
}

std::vector<float> Explanation::map(const MapChoice& choice) const {
  const SeenAttention& a = attention(choice.attention);
  const std::int64_t last = std::ssize(a.layers) - 1, layer = checked(choice.layer, last + 1, "layer");
  const Tensor& all = a.layers[static_cast<std::size_t>(layer < 0 ? last : layer)];  // [samples, heads, rows, columns]
  const std::int64_t heads = a.heads(), size = all.dim(2) * all.dim(3), head = checked(choice.head, heads, "head");
  const float* from = all.data<float>() + a.sample * heads * size;
  if (head >= 0) return {from + head * size, from + (head + 1) * size};
  std::vector<float> mean(static_cast<std::size_t>(size));
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < size; ++i) mean[static_cast<std::size_t>(i)] += from[h * size + i] / static_cast<float>(heads);
  return mean;
}

bool Explanation::has_rollout(std::string_view name) const {
  if (rolled) return true;
  const SeenAttention& a = attention(name);
  return !stacks.empty() && a.rows == a.columns;
}

SeenMap Explanation::rollout(std::string_view name) const {
  if (rolled) return *rolled;
  const SeenAttention& a = attention(name.empty() && !attentions.empty() ? attentions.front().name : name);
  if (a.rows != a.columns) fail("explain", "roll-out goes through the layers of one side: {} is from {} to {}", a.name, a.rows, a.columns);
  return {a.rows, a.columns, attention_rollout(a.layers, a.sample)};
}

}  // namespace transformer
