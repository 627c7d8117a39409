// Norm of every column over all rows: y = (x - mean)·rstd·weight + bias, mean and rstd one value per column.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/batch_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd-inl.h"
#include "transformer/core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

std::int64_t RowGrain(std::int64_t cols) { return 1 + 16384 / std::max<std::int64_t>(cols, 1); }

// to[i] = the sum of add(row, i) over the rows, in blocks of rows whose sums are added in order: the split depends on the
// number of rows alone, so that every number of threads gives the same bits. add(row, sums) adds one row to cols sums.
template <class AddRow>
void SumRows(Context& ctx, std::int64_t rows, std::int64_t cols, float* HWY_RESTRICT to, AddRow&& add) {
  const std::int64_t block_rows = std::max<std::int64_t>(32, (rows + 63) / 64), blocks = (rows + block_rows - 1) / block_rows;
  Tensor scratch = Tensor::empty(ctx, {blocks, cols});
  float* sums = scratch.mutable_data<float>();
  parallel_for(ctx.threads(), blocks, RowGrain(block_rows * cols), [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    std::fill(sums + begin * cols, sums + end * cols, 0.0F);
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) add(row, sums + block * cols);
  });
  std::fill_n(to, cols, 0.0F);
  for (std::int64_t block = 0; block < blocks; ++block)
    for (std::int64_t i = 0; i < cols; ++i) to[i] += sums[block * cols + i];
}

// The mean first, then the squares of the distances from it: exact where E[x²] - E[x]² would cancel.
void Statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) {
  const std::int64_t rows = x.rows(), cols = x.cols(), stride = x.row_stride();
  float *means = mean.mutable_data<float>(), *variances = variance.mutable_data<float>();
  visit_float("batch_statistics", x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    SumRows(ctx, rows, cols, means, [=](std::int64_t row, float* HWY_RESTRICT sum) HWY_ATTR {
      const T* in = from + row * stride;
      ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
        StoreSome(whole, hn::Add(LoadSome(whole, sum + i, m), LoadSome(whole, in + i, m)), sum + i, m);
      });
    });
    for (std::int64_t i = 0; i < cols; ++i) means[i] /= static_cast<float>(rows);
    SumRows(ctx, rows, cols, variances, [=](std::int64_t row, float* HWY_RESTRICT sum) HWY_ATTR {
      const T* in = from + row * stride;
      ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
        const VF d = hn::Sub(LoadSome(whole, in + i, m), LoadSome(whole, means + i, m));
        StoreSome(whole, hn::MulAdd(d, d, LoadSome(whole, sum + i, m)), sum + i, m);
      });
    });
    for (std::int64_t i = 0; i < cols; ++i) variances[i] /= static_cast<float>(rows);
  });
}

const float* Floats(const Tensor& t) { return t.defined() ? t.data<float>() : nullptr; }

void Forward(Context& ctx, const Tensor& x, const Kernels::BatchNormArgs& args, Tensor& y) {
  const std::int64_t cols = x.cols(), x_stride = x.row_stride(), y_stride = y.row_stride();
  const float *mean = Floats(args.mean), *rstd = Floats(args.rstd), *weight = Floats(args.weight), *bias = Floats(args.bias);
  visit_float("batch_norm", x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    parallel_for(ctx.threads(), x.rows(), RowGrain(cols), [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* in = from + row * x_stride;
        T* out = to + row * y_stride;
        ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          VF v = hn::Mul(hn::Sub(LoadSome(whole, in + i, m), LoadSome(whole, mean + i, m)), LoadSome(whole, rstd + i, m));
          if (weight != nullptr) v = hn::Mul(v, LoadSome(whole, weight + i, m));
          if (bias != nullptr) v = hn::Add(v, LoadSome(whole, bias + i, m));
          StoreSome(whole, v, out + i, m);
        });
      }
    });
  });
}

// dbias = Σ dy, dweight = Σ dy·xhat over the rows, xhat = (x - mean)·rstd, and
//   dx = weight·rstd·(dy - (dbias + xhat·dweight)/rows)   where mean and rstd are those of x,
//   dx = weight·rstd·dy                                   where they were given.
void BackwardRows(Context& ctx, const Tensor& x, const Kernels::BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                  bool accumulate, Tensor& dweight, Tensor& dbias) {
  const std::int64_t rows = x.rows(), cols = x.cols(), x_stride = x.row_stride(), dy_stride = dy.row_stride();
  const float *mean = Floats(args.mean), *rstd = Floats(args.rstd), *weight = Floats(args.weight);
  float *sum_gx = dweight.mutable_data<float>(), *sum_g = dbias.mutable_data<float>();
  visit_float("batch_norm_backward", x.dtype(), [&]<class T>() {
    const T *from = x.data<T>(), *dys = dy.data<T>();
    SumRows(ctx, rows, cols, sum_g, [=](std::int64_t row, float* HWY_RESTRICT sum) HWY_ATTR {
      const T* g = dys + row * dy_stride;
      ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
        StoreSome(whole, hn::Add(LoadSome(whole, sum + i, m), LoadSome(whole, g + i, m)), sum + i, m);
      });
    });
    SumRows(ctx, rows, cols, sum_gx, [=](std::int64_t row, float* HWY_RESTRICT sum) HWY_ATTR {
      const T *in = from + row * x_stride, *g = dys + row * dy_stride;
      ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
        const VF xhat = hn::Mul(hn::Sub(LoadSome(whole, in + i, m), LoadSome(whole, mean + i, m)), LoadSome(whole, rstd + i, m));
        StoreSome(whole, hn::MulAdd(LoadSome(whole, g + i, m), xhat, LoadSome(whole, sum + i, m)), sum + i, m);
      });
    });
    if (!dx.defined()) return;
    T* to = dx.mutable_data<T>();
    const std::int64_t dx_stride = dx.row_stride();
    const float part = of_batch ? 1.0F / static_cast<float>(rows) : 0.0F;
    parallel_for(ctx.threads(), rows, RowGrain(cols), [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const VF each = hn::Set(DF(), part);
      for (std::int64_t row = begin; row < end; ++row) {
        const T *in = from + row * x_stride, *g = dys + row * dy_stride;
        T* out = to + row * dx_stride;
        ForVectors(cols, [=](std::int64_t i, auto whole, std::int64_t m) HWY_ATTR {
          const VF r = LoadSome(whole, rstd + i, m);
          const VF xhat = hn::Mul(hn::Sub(LoadSome(whole, in + i, m), LoadSome(whole, mean + i, m)), r);
          const VF common = hn::MulAdd(xhat, LoadSome(whole, sum_gx + i, m), LoadSome(whole, sum_g + i, m));
          VF v = hn::Mul(r, hn::NegMulAdd(each, common, LoadSome(whole, g + i, m)));
          if (weight != nullptr) v = hn::Mul(v, LoadSome(whole, weight + i, m));
          if (accumulate) v = hn::Add(v, LoadSome(whole, out + i, m));
          StoreSome(whole, v, out + i, m);
        });
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(Statistics);
HWY_EXPORT(Forward);
HWY_EXPORT(BackwardRows);

void CpuKernels::batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) {
  HWY_DYNAMIC_DISPATCH(Statistics)(ctx, x, mean, variance);
}

void CpuKernels::batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y) {
  HWY_DYNAMIC_DISPATCH(Forward)(ctx, x, args, y);
}

void CpuKernels::batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                                     bool accumulate, Tensor& dweight, Tensor& dbias) {
  HWY_DYNAMIC_DISPATCH(BackwardRows)(ctx, x, args, of_batch, dy, dx, accumulate, dweight, dbias);
}

}  // namespace transformer
#endif
