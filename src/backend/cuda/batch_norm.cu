// Norm of every column over all rows: y = (x - mean)·rstd·weight + bias, mean and rstd one value per column.
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/over_rows.cuh"

namespace transformer {
namespace {

// (x - mean)²
template <class T>
struct SquaredDistance {
  Rows<const T> x;
  const float* mean;
  template <int N>
  __device__ void get(std::int64_t row, std::int64_t column, float (&v)[N]) const {
    load(x.at(row, column), v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] -= mean[column + i];
      v[i] *= v[i];
    }
  }
};

// dy·xhat
template <class T>
struct TimesNormed {
  Rows<const T> x, dy;
  const float *mean, *rstd;
  template <int N>
  __device__ void get(std::int64_t row, std::int64_t column, float (&v)[N]) const {
    float g[N];
    load(x.at(row, column), v);
    load(dy.at(row, column), g);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = (v[i] - mean[column + i]) * rstd[column + i] * g[i];
  }
};

template <class T>
struct BatchNormed {
  Rows<const T> x;
  const float *mean, *rstd, *weight, *bias;  // the last two may be null
  Rows<T> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float v[N];
    load(x.at(row, column), v);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::int64_t c = column + i;
      v[i] = (v[i] - mean[c]) * rstd[c] * (weight != nullptr ? weight[c] : 1.0F) + (bias != nullptr ? bias[c] : 0.0F);
    }
    store(v, y.at(row, column));
  }
};

// dx = weight·rstd·(dy - part·(Σ dy + xhat·Σ dy·xhat)), part = 1/rows where mean and rstd are those of x, else 0.
template <class T>
struct BatchNormedBackward {
  Rows<const T> x, dy;
  const float *mean, *rstd, *weight, *sum_g, *sum_gx;
  float part;
  bool accumulate;
  Rows<T> dx;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float v[N], g[N], before[N];
    load(x.at(row, column), v);
    load(dy.at(row, column), g);
    if (accumulate) load(dx.at(row, column), before);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::int64_t c = column + i;
      const float xhat = (v[i] - mean[c]) * rstd[c];
      v[i] = rstd[c] * (g[i] - part * (sum_g[c] + xhat * sum_gx[c])) * (weight != nullptr ? weight[c] : 1.0F);
      if (accumulate) v[i] += before[i];
    }
    store(v, dx.at(row, column));
  }
};

}  // namespace

// The mean first, then the squares of the distances from it: exact where E[x²] - E[x]² would cancel.
void CudaKernels::batch_statistics(Context& ctx, const Tensor& x, Tensor& mean, Tensor& variance) {
  visit_device_float("batch_statistics", x.dtype(), [&]<class T>() {
    const Rows<const T> rows = rows_of<T>(x);
    const float each = 1.0F / static_cast<float>(x.rows());
    float* means = mutable_values_of<float>(mean);
    reduce_columns<Sum>(ctx, "batch_statistics", ElementsOf<T>{rows}, x.rows(), x.cols(), is_wide(x), means, each, false);
    reduce_columns<Sum>(ctx, "batch_statistics", SquaredDistance<T>{rows, means}, x.rows(), x.cols(), is_wide(x),
                        mutable_values_of<float>(variance), each, false);
  });
}

void CudaKernels::batch_norm(Context& ctx, const Tensor& x, const BatchNormArgs& args, Tensor& y) {
  visit_device_float("batch_norm", x.dtype(), [&]<class T>() {
    over_rows(ctx, "batch_norm", {x.rows(), x.cols(), is_wide(x) && is_wide(y)},
              BatchNormed<T>{rows_of<T>(x), values_of<float>(args.mean), values_of<float>(args.rstd), values_of<float>(args.weight),
                             values_of<float>(args.bias), mutable_rows_of<T>(y)});
  });
}

void CudaKernels::batch_norm_backward(Context& ctx, const Tensor& x, const BatchNormArgs& args, bool of_batch, const Tensor& dy, Tensor& dx,
                                      bool accumulate, Tensor& dweight, Tensor& dbias) {
  visit_device_float("batch_norm_backward", x.dtype(), [&]<class T>() {
    const Rows<const T> rows = rows_of<T>(x), dys = rows_of<T>(dy);
    const float *mean = values_of<float>(args.mean), *rstd = values_of<float>(args.rstd);
    const bool wide = is_wide(x) && is_wide(dy);
    float *sum_gx = mutable_values_of<float>(dweight), *sum_g = mutable_values_of<float>(dbias);
    reduce_columns<Sum>(ctx, "batch_norm_backward", ElementsOf<T>{dys}, x.rows(), x.cols(), wide, sum_g, 1.0F, false);
    reduce_columns<Sum>(ctx, "batch_norm_backward", TimesNormed<T>{rows, dys, mean, rstd}, x.rows(), x.cols(), wide, sum_gx, 1.0F, false);
    if (!dx.defined()) return;
    over_rows(ctx, "batch_norm_backward", {x.rows(), x.cols(), wide && is_wide(dx)},
              BatchNormedBackward<T>{rows, dys, mean, rstd, values_of<float>(args.weight), sum_g, sum_gx,
                                     of_batch ? 1.0F / static_cast<float>(x.rows()) : 0.0F, accumulate, mutable_rows_of<T>(dx)});
  });
}

}  // namespace transformer
