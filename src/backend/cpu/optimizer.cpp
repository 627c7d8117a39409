// The optimizer's step. It reads and writes every parameter once and does little else, so the work is cut into
// equal chunks of all tensors together: no thread waits for another that got the large matrix.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"
#include "transformer/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/simd-inl.h"

#ifndef TRANSFORMER_CPU_OPTIMIZER_ONCE
#define TRANSFORMER_CPU_OPTIMIZER_ONCE
namespace transformer {

// Elements [begin, end) of tensor `tensor`.
struct Chunk {
  std::size_t tensor;
  std::int64_t begin, end;
};

// AdamArgs, and what follows from the state of the step.
struct AdamFactors : AdamArgs {
  float lr;
  float correction1, correction2;  // 1 - βᵢ^t
  float gradient_scale;            // clipping: min(1, max_norm / norm)
};

struct AdamPointers {
  float *w, *m, *v;
  const float* g;
  bfloat16* low;  // null: none
  float decay;
};

}  // namespace transformer
#endif

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

// In float64: exact enough for billions of elements, and squares of large values do not overflow.
double SquaresOf(const float* x, std::int64_t n) {
  const hn::Half<DF> half;
  const hn::Rebind<double, decltype(half)> wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(half));
  auto a = hn::Zero(wide), b = a;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto u = hn::PromoteTo(wide, hn::LoadU(half, x + i)), v = hn::PromoteTo(wide, hn::LoadU(half, x + i + lanes));
    a = hn::MulAdd(u, u, a);
    b = hn::MulAdd(v, v, b);
  }
  double sum = hn::GetLane(hn::SumOfLanes(wide, hn::Add(a, b)));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

void AdamChunk(const AdamPointers& p, const AdamFactors& args, std::int64_t begin, std::int64_t end) {
  const DF d;
  const VF scale = hn::Set(d, args.gradient_scale), eps = hn::Set(d, args.eps);
  const VF beta1 = hn::Set(d, args.beta1), beta2 = hn::Set(d, args.beta2);
  const VF rest1 = hn::Set(d, 1.0F - args.beta1), rest2 = hn::Set(d, 1.0F - args.beta2);
  const VF rate = hn::Set(d, -args.lr / args.correction1), root = hn::Set(d, 1.0F / std::sqrt(args.correction2));
  const VF keep = hn::Set(d, args.decoupled ? 1.0F - args.lr * p.decay : 1.0F);  // of the weight
  const VF pull = hn::Set(d, args.decoupled ? 0.0F : p.decay);                   // into the gradient
  ForVectors(end - begin, [&](std::int64_t offset, auto whole, std::int64_t n) HWY_ATTR {
    const std::int64_t i = begin + offset;
    const VF w = LoadSome(whole, p.w + i, n);
    const VF g = hn::MulAdd(w, pull, hn::Mul(LoadSome(whole, p.g + i, n), scale));
    const VF m = hn::MulAdd(LoadSome(whole, p.m + i, n), beta1, hn::Mul(g, rest1));
    const VF v = hn::MulAdd(LoadSome(whole, p.v + i, n), beta2, hn::Mul(hn::Mul(g, g), rest2));
    const VF new_w = hn::MulAdd(hn::Div(m, hn::MulAdd(hn::Sqrt(v), root, eps)), rate, hn::Mul(w, keep));
    StoreSome(whole, m, p.m + i, n);
    StoreSome(whole, v, p.v + i, n);
    StoreSome(whole, new_w, p.w + i, n);
    if (p.low != nullptr) StoreSome(whole, new_w, p.low + i, n);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(SquaresOf);
HWY_EXPORT(AdamChunk);

namespace {

StepState& state_of(Tensor& state) { return *reinterpret_cast<StepState*>(state.mutable_data<std::uint8_t>()); }
bool is_finite(const Tensor& state) { return reinterpret_cast<const StepState*>(state.data<std::uint8_t>())->finite != 0; }

template <class Size>
std::vector<Chunk> chunks_of(std::size_t tensors, Size&& size) {
  constexpr std::int64_t chunk = 16384;
  std::vector<Chunk> chunks;
  for (std::size_t t = 0; t < tensors; ++t)
    for (std::int64_t begin = 0, n = size(t); begin < n; begin += chunk) chunks.push_back({t, begin, std::min(begin + chunk, n)});
  return chunks;
}

}  // namespace

double CpuKernels::sum_of_squares(Context& ctx, std::span<const Tensor> tensors) {
  std::vector<const float*> data;
  for (const Tensor& t : tensors) data.push_back(t.data<float>());
  const std::vector<Chunk> chunks = chunks_of(tensors.size(), [&](std::size_t t) { return tensors[t].numel(); });
  std::vector<double> sums(chunks.size());
  parallel_for(ctx.threads(), static_cast<std::int64_t>(chunks.size()), 2, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      sums[i] = HWY_DYNAMIC_DISPATCH(SquaresOf)(data[chunks[i].tensor] + chunks[i].begin, chunks[i].end - chunks[i].begin);
  });
  double sum = 0.0;  // in the order of the chunks: the same for any number of threads
  for (double s : sums) sum += s;
  return sum;
}

void CpuKernels::add_loss(Context&, const Tensor& loss, double weight, Tensor& state) {
  StepState& s = state_of(state);
  s.loss += static_cast<double>(*loss.data<float>()) * weight;
  if (!std::isfinite(s.loss)) s.finite = 0;
}

void CpuKernels::gradient_norm(Context& ctx, std::span<const Tensor> gradients, Tensor& state) {
  StepState& s = state_of(state);
  s.norm = std::sqrt(sum_of_squares(ctx, gradients));
  if (!std::isfinite(s.norm)) s.finite = 0;
}

void CpuKernels::share_step(Context&, Tensor& state) {
  StepState& s = state_of(state);
  s.norm *= s.norm;
}

void CpuKernels::whole_step(Context&, Tensor& state) {
  StepState& s = state_of(state);
  s.norm = std::sqrt(s.norm);
  s.finite = std::isfinite(s.loss) && std::isfinite(s.norm) ? 1 : 0;
}

void CpuKernels::adam(Context& ctx, std::span<AdamSlot> slots, const AdamArgs& args, Tensor& state) {
  StepState& s = state_of(state);
  if (s.finite == 0) return;
  ++s.updates;
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 - std::pow(static_cast<double>(beta), static_cast<double>(s.updates)));
  };
  const AdamFactors factors{args, s.lr, correction(args.beta1), correction(args.beta2), clipping(s.norm, args.max_norm)};
  std::vector<AdamPointers> pointers;
  for (AdamSlot& s : slots)
    pointers.push_back({s.weight.mutable_data<float>(), s.m.mutable_data<float>(), s.v.mutable_data<float>(), s.gradient.data<float>(),
                        s.low_precision.defined() ? s.low_precision.mutable_data<bfloat16>() : nullptr, s.weight_decay});
  const std::vector<Chunk> chunks = chunks_of(slots.size(), [&](std::size_t t) { return slots[t].weight.numel(); });
  parallel_for(ctx.threads(), static_cast<std::int64_t>(chunks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      HWY_DYNAMIC_DISPATCH(AdamChunk)(pointers[chunks[i].tensor], factors, chunks[i].begin, chunks[i].end);
  });
}

void CpuKernels::blend(Context& ctx, std::span<Tensor> means, float keep, std::span<const Tensor> xs, const Tensor& state) {
  if (!is_finite(state)) return;
  for (std::size_t i = 0; i < means.size(); ++i) {
    Tensor part = Tensor::like(ctx, xs[i]);
    scale(ctx, 1.0F - keep, xs[i], part);
    scale(ctx, keep, means[i], means[i]);
    add_to(ctx, part, means[i]);
  }
}

void CpuKernels::undo_if_skipped(Context& ctx, std::span<const Tensor> before, std::span<Tensor> xs, const Tensor& state) {
  if (is_finite(state)) return;
  for (std::size_t i = 0; i < xs.size(); ++i) copy(ctx, before[i], xs[i]);
}

}  // namespace transformer
#endif
