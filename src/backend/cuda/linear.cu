// Linear layers: plain products, with bias, activation, dropout and the bias's gradient in the passes beside them.
#include "backend/cuda/activations.cuh"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/few_rows.cuh"
#include "backend/cuda/over_rows.cuh"
#include "backend/cuda/random.cuh"

namespace transformer {
namespace {

// y = activation(z + bias); z may be y.
template <class T, class B, class F>
struct Activated {
  Rows<const T> z;
  const B* bias;  // may be null
  Rows<T> y;
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float v[N], b[N];
    load(z.at(row, column), v);
    if (bias != nullptr) load(bias + column, b);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      v[i] = F::apply(bias != nullptr ? v[i] + b[i] : v[i], slope);
    }
    store(v, y.at(row, column));
  }
};

// The same with dropout: a thread takes the pairs of a group of 64 columns that dropout_pairs gives it.
template <class T, class B, class F>
__global__ void activate_and_drop(Rows<const T> z, const B* bias, Rows<T> y, std::int64_t rows, std::int64_t cols, Dropout dropout) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, group = at / 8;
  if (group * 64 >= rows * cols) return;
  const std::int64_t row = group * 64 / cols, column = group * 64 - row * cols;
  dropout_pairs(dropout, static_cast<std::uint64_t>(group), static_cast<unsigned>(at % 8), [&](unsigned i, float first, float second) {
    float v[2], b[2] = {0.0F, 0.0F}, slope;
    load(z.at(row, column + i), v);
    if (bias != nullptr) load(bias + column + i, b);
    v[0] = to_float(from_float<T>(F::apply(v[0] + b[0], slope))) * first;
    v[1] = to_float(from_float<T>(F::apply(v[1] + b[1], slope))) * second;
    store(v, y.at(row, column + i));
  });
}

// dz = factor · dy · f'(kept + bias), written on the way to the sum of its rows, which is the bias's gradient.
template <class T, class B, class F>
struct ActivationGradient {
  Rows<const T> kept, dy;
  const B* bias;  // may be null; of the activation's input
  float factor;
  Rows<T> dz;
  template <int N>
  __device__ void get(std::int64_t row, std::int64_t column, float (&g)[N]) const {
    float v[N], b[N];
    load(kept.at(row, column), v);
    load(dy.at(row, column), g);
    if (bias != nullptr) load(bias + column, b);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float slope;
      F::apply(bias != nullptr ? v[i] + b[i] : v[i], slope);
      g[i] = to_float(from_float<T>(g[i] * (slope * factor)));
    }
    store(g, dz.at(row, column));
  }
  template <int N>
  __device__ void apply(std::int64_t row, std::int64_t column) const {
    float g[N];
    get(row, column, g);
  }
};

template <class F>
void visit_bias(const Tensor& bias, const Tensor& y, F&& f) {
  visit_device_float("linear", y.dtype(), [&]<class T>() {
    if (!bias.defined() || bias.dtype() == DType::float32) f.template operator()<T, float>();
    else f.template operator()<T, T>();
  });
}

}  // namespace

// kept holds the product without the bias, which backward adds again.
void CudaKernels::linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) {
  const bool apart = kept.defined() && !kept.same_memory(y);
  if (args.activation == Activation::none && args.dropout.p == 0.0F)
    return matmul(ctx, x, weight, y, {.transpose_b = true, .bias = args.bias});
  if (!apart && args.dropout.p == 0.0F && x.rank() == 2 && few_rows(ctx, x, weight, args.bias, args.activation, y)) return;
  Tensor& z = apart ? kept : y;
  matmul(ctx, x, weight, z, {.transpose_b = true});
  if (y.numel() == 0) return;
  visit_bias(args.bias, y, [&]<class T, class B>() {
    visit_activation<T>(args.activation, [&]<class F>() {
      const bool wide = is_wide(y) && is_wide(z) && is_wide(args.bias);
      const B* bias = values_of<B>(args.bias);
      if (args.dropout.p > 0.0F && wide && y.cols() % 64 == 0) {
        const std::int64_t threads = y.numel() / 8;
        return launch(ctx, "linear", activate_and_drop<T, B, F>, dim3(static_cast<unsigned>(blocks_of(threads, 256))), dim3(256), 0,
                      rows_of<T>(z), bias, mutable_rows_of<T>(y), y.rows(), y.cols(), Dropout(ctx, args.dropout));
      }
      over_rows(ctx, "linear", {y.rows(), y.cols(), wide}, Activated<T, B, F>{rows_of<T>(z), bias, mutable_rows_of<T>(y)});
      if (args.dropout.p > 0.0F) dropout(ctx, y, args.dropout, y);
    });
  });
}

void CudaKernels::linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept,
                                  const Tensor& dy, LinearGradients& out) {
  Tensor dz = dy;  // gradient before dropout and activation
  bool summed = false;
  if (args.activation != Activation::none || args.dropout.p > 0.0F) dz = Tensor::empty(ctx, dy.shape(), dy.dtype());
  if (args.activation == Activation::none && args.dropout.p > 0.0F) {
    dropout(ctx, dy, args.dropout, dz);
  } else if (args.activation != Activation::none) {
    // For relu the output tells: what is zero after relu and dropout was negative or dropped.
    const bool relu = args.activation == Activation::relu;
    Tensor from = dy;
    if (!relu && args.dropout.p > 0.0F) dropout(ctx, dy, args.dropout, dz), from = dz;
    const float factor = relu ? 1.0F / (1.0F - args.dropout.p) : 1.0F;
    summed = out.dbias.defined() && out.dbias.dtype() == DType::float32 && dy.rows() > 0;
    visit_bias(args.bias, dy, [&]<class T, class B>() {
      visit_activation<T>(args.activation, [&]<class F>() {
        const bool wide = is_wide(kept) && is_wide(from) && is_wide(args.bias) && is_wide(dz);
        const ActivationGradient<T, B, F> f{rows_of<T>(kept), rows_of<T>(from), relu ? nullptr : values_of<B>(args.bias), factor,
                                            mutable_rows_of<T>(dz)};
        if (summed)
          reduce_columns<Sum>(ctx, "linear_backward", f, dz.rows(), dz.cols(), wide, mutable_values_of<float>(out.dbias), 1.0F,
                              out.accumulate_dbias);
        else over_rows(ctx, "linear_backward", {dz.rows(), dz.cols(), wide}, f);
      });
    });
  }
  if (out.dx.defined()) matmul(ctx, dz, weight, out.dx, {.accumulate = out.accumulate_dx});
  if (out.dweight.defined()) matmul(ctx, dz, x, out.dweight, {.transpose_a = true, .accumulate = out.accumulate_dweight});
  if (out.dbias.defined() && !summed) sum_rows(ctx, dz, out.dbias, out.accumulate_dbias);
}

}  // namespace transformer
