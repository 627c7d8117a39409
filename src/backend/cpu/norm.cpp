// Norms over the last dimension, alone or of x + dropout(sub). rms_norm is layer_norm whose mean is taken as 0:
//   y = (x - mean)·rstd·weight + bias,   rstd = 1/√(mean((x - mean)²) + eps)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/ahead.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/random-inl.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kGrain = 8192;  // numbers that are worth another thread

// Σ f over the vectors of [0, n), four sums side by side because one would wait for itself.
template <class F>
HWY_INLINE float SumVectors(std::int64_t n, F&& f) {
  const DF d;
  const std::int64_t lanes = Lanes();
  const std::true_type whole;
  VF s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, f(i, whole, lanes));
    s1 = hn::Add(s1, f(i + lanes, whole, lanes));
    s2 = hn::Add(s2, f(i + 2 * lanes, whole, lanes));
    s3 = hn::Add(s3, f(i + 3 * lanes, whole, lanes));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(i, whole, lanes));
  if (i < n) s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), f(i, std::false_type{}, n - i)));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

// sum = x + factor·sub; no factor: sum = x + sub
template <class T>
HWY_INLINE void AddRow(const T* HWY_RESTRICT x, const T* HWY_RESTRICT sub, const float* HWY_RESTRICT factor, T* HWY_RESTRICT sum,
                       std::int64_t n) {
  if (factor != nullptr) {
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      const VF scaled = hn::Mul(LoadSome(whole, sub + i, m), LoadSome(whole, factor + i, m));
      StoreSome(whole, hn::Add(LoadSome(whole, x + i, m), scaled), sum + i, m);
    });
  } else {
    ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
      StoreSome(whole, hn::Add(LoadSome(whole, x + i, m), LoadSome(whole, sub + i, m)), sum + i, m);
    });
  }
}

struct Statistics {
  float mean, rstd;
};

// The mean first, then the squares of the distances from it: exact where E[x²] - E[x]² would cancel.
template <class T>
HWY_INLINE Statistics RowStatistics(NormKind kind, float eps, const T* HWY_RESTRICT x, std::int64_t n) {
  const float count = static_cast<float>(n);
  float mean = 0.0F;
  if (kind == NormKind::layer_norm)
    mean = SumVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR { return LoadSome(whole, x + i, m); }) / count;
  const VF center = hn::Set(DF(), mean);
  const float squares = SumVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF d = hn::Sub(LoadSome(whole, x + i, m), center);
    return hn::Mul(d, d);
  });
  return {mean, 1.0F / std::sqrt(squares / count + eps)};
}

template <class T>
HWY_INLINE void NormRow(Statistics s, const T* HWY_RESTRICT x, const float* HWY_RESTRICT weight, const float* HWY_RESTRICT bias,
                        T* HWY_RESTRICT y, std::int64_t n) {
  const VF mean = hn::Set(DF(), s.mean), rstd = hn::Set(DF(), s.rstd);
  ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    VF v = hn::Mul(hn::Sub(LoadSome(whole, x + i, m), mean), rstd);
    if (weight != nullptr) v = hn::Mul(v, LoadSome(whole, weight + i, m));
    if (bias != nullptr) v = hn::Add(v, LoadSome(whole, bias + i, m));
    StoreSome(whole, v, y + i, m);
  });
}

// One row of backward: adds the row's part of the column sums of dy·xhat and dy, and writes dx where wanted.
template <class T>
HWY_INLINE void BackwardRow(NormKind kind, Statistics s, const T* HWY_RESTRICT x, const T* HWY_RESTRICT dy,
                            const float* HWY_RESTRICT weight, float* HWY_RESTRICT dweight, float* HWY_RESTRICT dbias, T* HWY_RESTRICT dx,
                            bool accumulate, std::int64_t n) {
  const DF d;
  const VF mean = hn::Set(d, s.mean), rstd = hn::Set(d, s.rstd);
  VF sum_g = hn::Zero(d), sum_gx = hn::Zero(d);
  ForVectors(n, [&](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF xhat = hn::Mul(hn::Sub(LoadSome(whole, x + i, m), mean), rstd);
    VF g = LoadSome(whole, dy + i, m);  // zero beyond the row, and so is what is added to the sums
    if (dweight != nullptr) StoreSome(whole, hn::MulAdd(g, xhat, LoadSome(whole, dweight + i, m)), dweight + i, m);
    if (dbias != nullptr) StoreSome(whole, hn::Add(g, LoadSome(whole, dbias + i, m)), dbias + i, m);
    if (weight != nullptr) g = hn::Mul(g, LoadSome(whole, weight + i, m));
    sum_g = hn::Add(sum_g, g);
    sum_gx = hn::MulAdd(g, xhat, sum_gx);
  });
  if (dx == nullptr) return;
  // dx = rstd·(g - mean(g) - xhat·mean(g·xhat)), g = dy·weight; rms_norm, whose mean is fixed, has no mean(g).
  const float count = static_cast<float>(n);
  const VF mean_g = hn::Set(d, kind == NormKind::layer_norm ? hn::GetLane(hn::SumOfLanes(d, sum_g)) / count : 0.0F);
  const VF mean_gx = hn::Set(d, hn::GetLane(hn::SumOfLanes(d, sum_gx)) / count);
  ForVectors(n, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
    const VF xhat = hn::Mul(hn::Sub(LoadSome(whole, x + i, m), mean), rstd);
    VF g = LoadSome(whole, dy + i, m);
    if (weight != nullptr) g = hn::Mul(g, LoadSome(whole, weight + i, m));
    VF v = hn::Mul(rstd, hn::NegMulAdd(xhat, mean_gx, hn::Sub(g, mean_g)));
    if (accumulate) v = hn::Add(v, LoadSome(whole, dx + i, m));
    StoreSome(whole, v, dx + i, m);
  });
}

const float* Floats(const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; }
float* MutableFloats(Tensor& t) { return t.defined() ? t.mutable_data<float>() : nullptr; }

// args.weight and args.bias are float32 here, and below.
void NormRows(Context& ctx, const Tensor& x, const Kernels::NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) {
  visit_float("norm", x.dtype(), [&]<class T>() {
    const std::int64_t cols = x.cols(), x_stride = x.row_stride(), sub_stride = args.sub.row_stride();
    const std::int64_t sum_stride = sum.row_stride(), y_stride = y.row_stride(), bytes = cols * static_cast<std::int64_t>(sizeof(T));
    const T* from = x.data<T>();
    const T* sub = args.sub.defined() ? args.sub.data<T>() : nullptr;
    T* total = sub != nullptr ? sum.mutable_data<T>() : nullptr;
    T* to = y.defined() ? y.mutable_data<T>() : nullptr;
    const float *weight = Floats(args.weight), *bias = Floats(args.bias);
    float *means = MutableFloats(mean), *rstds = MutableFloats(rstd);
    const bool drops = sub != nullptr && args.dropout.p > 0.0F;
    parallel_for(ctx.threads(), x.rows(), 1 + kGrain / std::max<std::int64_t>(cols, 1), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      std::vector<float> factor(drops ? static_cast<std::size_t>(cols) : 0);
      const auto next = [&](std::int64_t row) {
        if (row >= end) return;
        ahead::fetch(from + row * x_stride, bytes);
        if (sub != nullptr) ahead::fetch(sub + row * sub_stride, bytes), ahead::own(total + row * sum_stride, bytes);
        if (to != nullptr) ahead::own(to + row * y_stride, bytes);
      };
      next(begin);
      for (std::int64_t row = begin; row < end; ++row) {
        next(row + 1);
        const T* in = from + row * x_stride;
        if (sub != nullptr) {
          if (drops) DropoutFactors(args.dropout, static_cast<std::uint64_t>(row * cols), cols, factor.data());
          T* out = total + row * sum_stride;
          AddRow(in, sub + row * sub_stride, drops ? factor.data() : nullptr, out, cols);
          in = out;  // as stored: backward will see the same rounded values
        }
        if (to == nullptr) continue;
        const Statistics s = RowStatistics(args.kind, args.eps, in, cols);
        NormRow(s, in, weight, bias, to + row * y_stride, cols);
        if (means != nullptr) means[row] = s.mean;
        if (rstds != nullptr) rstds[row] = s.rstd;
      }
    });
  });
}

// Rows are taken in at most 64 blocks, whose column sums are added in order afterwards: the split depends on the
// number of rows alone, so that every number of threads gives the same bits.
void NormBackwardRows(Context& ctx, const Tensor& x, const Kernels::NormArgs& args, const Tensor& mean, const Tensor& rstd,
                      const Tensor& dy, Kernels::NormGradients& out, Tensor& dsub) {
  const std::int64_t rows = x.rows(), cols = x.cols();
  const std::int64_t block_rows = std::max<std::int64_t>(16, (rows + 63) / 64), blocks = (rows + block_rows - 1) / block_rows;
  const bool want_sums = out.dweight.defined() || out.dbias.defined();
  Tensor scratch = want_sums ? Tensor::empty(ctx, {blocks, 2, cols}) : Tensor();  // of dweight and dbias, for each block
  float* sums = MutableFloats(scratch);

  visit_float("norm_backward", x.dtype(), [&]<class T>() {
    const std::int64_t x_stride = x.row_stride(), dy_stride = dy.row_stride(), dx_stride = out.dx.row_stride();
    const std::int64_t bytes = cols * static_cast<std::int64_t>(sizeof(T));
    const T *from = x.data<T>(), *dys = dy.data<T>();
    T* dxs = out.dx.defined() ? out.dx.mutable_data<T>() : nullptr;
    const float *weight = Floats(args.weight), *means = Floats(mean), *rstds = Floats(rstd);
    const bool want_dweight = out.dweight.defined(), want_dbias = out.dbias.defined();
    T* dsubs = dsub.defined() ? dsub.mutable_data<T>() : nullptr;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(block_rows * cols, 1));
    parallel_for(ctx.threads(), blocks, grain, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      std::vector<float> factor(dsubs != nullptr ? static_cast<std::size_t>(cols) : 0);
      if (want_sums) std::fill(sums + begin * 2 * cols, sums + end * 2 * cols, 0.0F);
      for (std::int64_t block = begin; block < end; ++block) {
        float* dweight = want_dweight ? sums + block * 2 * cols : nullptr;
        float* dbias = want_dbias ? sums + (block * 2 + 1) * cols : nullptr;
        const std::int64_t last = std::min(rows, (block + 1) * block_rows);
        const auto next = [&](std::int64_t row) {
          if (row >= last) return;
          ahead::fetch(from + row * x_stride, bytes), ahead::fetch(dys + row * dy_stride, bytes);
          if (dxs != nullptr) ahead::own(dxs + row * dx_stride, bytes);
          if (dsubs != nullptr) ahead::own(dsubs + row * dsub.row_stride(), bytes);
        };
        next(block * block_rows);
        for (std::int64_t row = block * block_rows; row < last; ++row) {
          next(row + 1);
          const Statistics s{args.kind == NormKind::layer_norm ? means[row] : 0.0F, rstds[row]};
          BackwardRow(args.kind, s, from + row * x_stride, dys + row * dy_stride, weight, dweight, dbias,
                      dxs != nullptr ? dxs + row * dx_stride : nullptr, out.accumulate_dx, cols);
          if (dsubs == nullptr) continue;
          DropoutFactors(args.dropout, static_cast<std::uint64_t>(row * cols), cols, factor.data());
          ForVectors(cols,
                     [=, f = factor.data(), dx = dxs + row * dx_stride, to = dsubs + row * dsub.row_stride()](std::int64_t i, auto whole,
                                                                                                              std::int64_t m)
                         HWY_ATTR { StoreSome(whole, hn::Mul(LoadSome(whole, dx + i, m), LoadSome(whole, f + i, m)), to + i, m); });
        }
      }
    });
  });

  // What is there already is added last: the bits are those of sums in a tensor of their own.
  auto add_blocks = [&](float* total, bool accumulate, const float* part, std::int64_t begin, std::int64_t end) HWY_ATTR {
    if (total == nullptr) return;
    ForVectors(end - begin, [&](std::int64_t offset, auto whole, std::int64_t m) HWY_ATTR {
      const std::int64_t i = begin + offset;
      VF sum = hn::Zero(DF());
      for (std::int64_t block = 0; block < blocks; ++block) {
        const VF row = LoadSome(whole, part + block * 2 * cols + i, m);
        sum = block == 0 ? row : hn::Add(sum, row);
      }
      StoreSome(whole, hn::Add(accumulate ? LoadSome(whole, total + i, m) : hn::Zero(DF()), sum), total + i, m);
    });
  };
  if (!want_sums) return;
  // The blocks are in the caches of those that summed them: it is quicker to read them side by side.
  constexpr std::int64_t kColumns = 64;
  float *const dweight = MutableFloats(out.dweight), *const dbias = MutableFloats(out.dbias);
  parallel_for(ctx.threads(), (cols + kColumns - 1) / kColumns, 1 + kGrain / 4 / (blocks * kColumns + 1),
               [&](std::int64_t first, std::int64_t last) HWY_ATTR {
    const std::int64_t begin = first * kColumns, end = std::min(cols, last * kColumns);
    add_blocks(dweight, out.accumulate_dweight, sums, begin, end);
    add_blocks(dbias, out.accumulate_dbias, sums + cols, begin, end);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(NormRows);
HWY_EXPORT(NormBackwardRows);

namespace {

// The parameters in float32: they are a row long, a copy costs nothing.
Kernels::NormArgs with_float_parameters(Kernels& k, Context& ctx, Kernels::NormArgs args) {
  for (Tensor* t : {&args.weight, &args.bias}) {
    if (!t->defined() || t->dtype() == DType::float32) continue;
    Tensor copy = Tensor::empty(ctx, t->shape(), DType::float32);
    k.copy(ctx, *t, copy);
    *t = copy;
  }
  return args;
}

}  // namespace

void CpuKernels::norm(Context& ctx, const Tensor& x, const NormArgs& args, Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) {
  HWY_DYNAMIC_DISPATCH(NormRows)(ctx, x, with_float_parameters(*this, ctx, args), sum, y, mean, rstd);
}

void CpuKernels::norm_backward(Context& ctx, const Tensor& x, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                               const Tensor& dy, NormGradients& out) {
  Tensor none;
  HWY_DYNAMIC_DISPATCH(NormBackwardRows)(ctx, x, with_float_parameters(*this, ctx, args), mean, rstd, dy, out, none);
}

void CpuKernels::add_norm_backward(Context& ctx, const Tensor& sum, const NormArgs& args, const Tensor& mean, const Tensor& rstd,
                                   const Tensor& dy, NormGradients& out, Tensor& dsub) {
  HWY_DYNAMIC_DISPATCH(NormBackwardRows)(ctx, sum, with_float_parameters(*this, ctx, args), mean, rstd, dy, out, dsub);
}

}  // namespace transformer
#endif
