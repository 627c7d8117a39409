// Sums and maxima along axes. Every reduction is a tree over blocks of fixed size: the result does not depend on
// the number of threads, and its rounding error grows with the depth of the tree instead of the number of terms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/axes.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/loops.h"
#include "backend/cpu/math-inl.h"

// What both sides of the dispatch share; read once, however often this file is included.
#ifndef TRANSFORMER_CPU_REDUCE_ONCE
#define TRANSFORMER_CPU_REDUCE_ONCE
namespace transformer {

// One axis to reduce: x [outer, n, inner], elements of `inner` dense, in blocks of `block` along n.
struct ReduceAxis {
  std::int64_t outer, n, inner;
  std::int64_t outer_step, step;
  std::int64_t block;
  std::int64_t blocks() const { return (n + block - 1) / block; }
  bool dense() const { return inner == 1 && step == 1; }
};

inline constexpr std::int64_t reduce_chunk = 1024;  // columns of a task: their accumulators stay in the L1 cache

}  // namespace transformer
#endif

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {

struct SumOf {
  static constexpr float start = 0.0F;
  static HWY_INLINE VF Combine(VF a, VF b) { return hn::Add(a, b); }
  static HWY_INLINE float Combine(float a, float b) { return a + b; }
};
struct MaxOf {
  static constexpr float start = -std::numeric_limits<float>::infinity();
  static HWY_INLINE VF Combine(VF a, VF b) { return Larger(a, b); }
  static HWY_INLINE float Combine(float a, float b) { return a > b || a != a ? a : b; }
};

// A dense line to one number: four vectors of accumulators, folded into the total after 32 terms each.
template <class Op, class T>
HWY_INLINE float ReduceLine(const T* x, std::int64_t n) {
  const DF d;
  const std::int64_t lanes = Lanes();
  VF total = Const(Op::start);
  std::int64_t i = 0;
  while (i + 4 * lanes <= n) {
    VF a = Const(Op::start), b = a, c = a, e = a;
    for (int terms = 0; terms < 32 && i + 4 * lanes <= n; ++terms, i += 4 * lanes) {
      a = Op::Combine(a, Load(x + i));
      b = Op::Combine(b, Load(x + i + lanes));
      c = Op::Combine(c, Load(x + i + 2 * lanes));
      e = Op::Combine(e, Load(x + i + 3 * lanes));
    }
    total = Op::Combine(total, Op::Combine(Op::Combine(a, b), Op::Combine(c, e)));
  }
  for (; i + lanes <= n; i += lanes) total = Op::Combine(total, Load(x + i));
  if (i < n)
    total = Op::Combine(total, hn::IfThenElse(hn::FirstN(d, static_cast<std::size_t>(n - i)), LoadN(x + i, n - i), Const(Op::start)));
  float last[16];
  hn::StoreU(total, d, last);
  for (std::int64_t left = lanes; left > 1; left /= 2)
    for (std::int64_t k = 0; k < left / 2; ++k) last[k] = Op::Combine(last[k], last[k + left / 2]);
  return last[0];
}

// `rows` rows of n ≤ reduce_chunk columns to one row, four rows at a time.
template <class Op, class T>
HWY_INLINE void ReduceRows(const T* x, std::int64_t step, std::int64_t rows, std::int64_t n, float* sum) {
  ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { StoreSome(whole, LoadSome(whole, x + i, m), sum + i, m); });
  std::int64_t r = 1;
  for (; r + 4 <= rows; r += 4) {
    const T* p = x + r * step;
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      const VF low = Op::Combine(LoadSome(whole, p + i, m), LoadSome(whole, p + step + i, m));
      const VF high = Op::Combine(LoadSome(whole, p + 2 * step + i, m), LoadSome(whole, p + 3 * step + i, m));
      StoreSome(whole, Op::Combine(LoadSome(whole, sum + i, m), Op::Combine(low, high)), sum + i, m);
    });
  }
  for (; r < rows; ++r) {
    const T* p = x + r * step;
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, Op::Combine(LoadSome(whole, sum + i, m), LoadSome(whole, p + i, m)), sum + i, m);
    });
  }
}

// y [outer, blocks, inner] (+)= factor · the reduction of each block of x.
template <class Op, class T, class Y>
void ReduceBlocks(Context& ctx, const T* x, const ReduceAxis& axis, Y* y, float factor, bool accumulate) {
  auto emit = [=](const float* result, Y* to, std::int64_t n) HWY_ATTR {
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      const VF before = accumulate ? LoadSome(whole, to + i, m) : hn::Zero(DF());
      StoreSome(whole, hn::MulAdd(LoadSome(whole, result + i, m), Const(factor), before), to + i, m);
    });
  };
  const std::int64_t blocks = axis.blocks(), chunks = (axis.inner + reduce_chunk - 1) / reduce_chunk;
  const std::int64_t work = std::min(axis.n, axis.block) * std::min(axis.inner, reduce_chunk);
  parallel_for(ctx.threads(), axis.outer * blocks * chunks, std::max<std::int64_t>(1, elementwise_grain / work),
               [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    HWY_ALIGN float result[reduce_chunk];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t first = task % chunks * reduce_chunk, block = task / chunks % blocks, outer = task / chunks / blocks;
      const std::int64_t rows = std::min(axis.block, axis.n - block * axis.block), cols = std::min(reduce_chunk, axis.inner - first);
      const T* from = x + outer * axis.outer_step + block * axis.block * axis.step + first;
      if (axis.dense()) result[0] = ReduceLine<Op>(from, rows);
      else ReduceRows<Op>(from, axis.step, rows, cols, result);
      emit(result, y + (outer * blocks + block) * axis.inner + first, cols);
    }
  });
}

void ReduceAlong(Context& ctx, bool max, const Tensor& x, const ReduceAxis& axis, Tensor& y, float factor, bool accumulate) {
  visit_float("reduce", x.dtype(), [&]<class T>() HWY_ATTR {
    visit_float("reduce", y.dtype(), [&]<class Y>() HWY_ATTR {
      if (max) ReduceBlocks<MaxOf>(ctx, x.data<T>(), axis, y.mutable_data<Y>(), factor, accumulate);
      else ReduceBlocks<SumOf>(ctx, x.data<T>(), axis, y.mutable_data<Y>(), factor, accumulate);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {

HWY_EXPORT(ReduceAlong);

namespace {

// Level after level of the tree, until one block is left.
void reduce_axis(Context& ctx, bool max, const Tensor& x, ReduceAxis axis, Tensor& y, float factor, bool accumulate) {
  axis.block = axis.dense() ? 4096 : 64;
  if (axis.blocks() == 1) return HWY_DYNAMIC_DISPATCH(ReduceAlong)(ctx, max, x, axis, y, factor, accumulate);
  Tensor partial = Tensor::empty(ctx, {axis.outer, axis.blocks(), axis.inner});
  HWY_DYNAMIC_DISPATCH(ReduceAlong)(ctx, max, x, axis, partial, 1.0F, false);
  const std::int64_t n = axis.blocks();
  reduce_axis(ctx, max, partial, {axis.outer, n, axis.inner, n * axis.inner, axis.inner, 1}, y, factor, accumulate);
}

}  // namespace

void CpuKernels::reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) {
  reduce_axes(*this, ctx, kind, x, y, accumulate,
              [&](const Tensor& from, std::int64_t outer, std::int64_t n, std::int64_t inner, Tensor& to, float factor, bool adds) {
    reduce_axis(ctx, kind == Reduction::max, from, {outer, n, inner, n * inner, inner, 1}, to, factor, adds);
  });
}

void CpuKernels::sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) {
  if (x.rows() == 0) {
    if (!accumulate) fill(ctx, 0.0F, y);
    return;
  }
  reduce_axis(ctx, false, x, {1, x.rows(), x.cols(), 0, x.row_stride(), 1}, y, 1.0F, accumulate);
}

}  // namespace transformer
#endif  // HWY_ONCE
