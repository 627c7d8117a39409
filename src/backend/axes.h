#pragma once
// How devices take tensors apart along axes: what is the same for all of them.

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/loops.h"
#include "backend/kernels.h"

namespace transformer {

// Reduces one axis after the other from the last by one(from [outer, n, inner], outer, n, inner, to, factor, accumulate); all but the final
// result are float32.
template <class One>
void reduce_axes(Kernels& kernels, Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate, One&& one) {
  if (x.numel() == 0 || y.numel() == 0) {
    if (!accumulate) kernels.fill(ctx, kind == Reduction::sum ? 0.0F : std::numeric_limits<float>::quiet_NaN(), y);
    return;
  }
  const float factor = kind == Reduction::mean ? static_cast<float>(static_cast<double>(y.numel()) / static_cast<double>(x.numel())) : 1.0F;

  // Neighbouring axes with the same fate are one axis: kept and reduced ones take turns.
  struct Axis {
    std::int64_t n;
    bool reduced;
  };
  std::vector<Axis> axes;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = y.dim(i) != x.dim(i);
    if (x.dim(i) == 1) continue;
    if (!axes.empty() && axes.back().reduced == reduced) axes.back().n *= x.dim(i);
    else axes.push_back({x.dim(i), reduced});
  }
  const auto last_reduced = [&] { return std::find_if(axes.rbegin(), axes.rend(), [](const Axis& a) { return a.reduced; }); };
  if (last_reduced() == axes.rend()) axes.insert(axes.begin(), {1, true});

  Tensor from = x;
  while (true) {
    const auto at = last_reduced();
    const std::int64_t n = at->n;
    std::int64_t inner = 1, outer = 1;
    for (auto i = axes.rbegin(); i != at; ++i) inner *= i->n;
    for (auto i = at + 1; i != axes.rend(); ++i) outer *= i->n;
    axes.erase(at.base() - 1);
    const bool done = last_reduced() == axes.rend();
    Tensor to = done ? y : Tensor::empty(ctx, {outer, inner});
    one(from, outer, n, inner, to, done ? factor : 1.0F, done && accumulate);
    if (done) return;
    from = to;
  }
}

// Steps of a contiguous tensor over the axes of the shape it broadcasts to: 0 along what it repeats.
inline std::vector<std::int64_t> broadcast_steps(const Shape& shape, const Shape& target) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(target.rank()), 0);
  std::int64_t step = 1;
  for (int i = 1; i <= shape.rank(); step *= shape[-i], ++i)
    if (shape[-i] != 1) steps[steps.size() - static_cast<std::size_t>(i)] = step;
  return steps;
}

// The loops over y of a and b that broadcast to it.
inline std::vector<Loop> broadcast_nest(const Tensor& a, const Tensor& b, const Tensor& y) {
  const std::vector<std::int64_t> a_steps = broadcast_steps(a.shape(), y.shape()), b_steps = broadcast_steps(b.shape(), y.shape());
  std::vector<Loop> nest;
  for (int i = 0; i < y.rank(); ++i) nest.push_back({y.dim(i), a_steps[static_cast<std::size_t>(i)], b_steps[static_cast<std::size_t>(i)]});
  return merge_loops(nest);
}

}  // namespace transformer
