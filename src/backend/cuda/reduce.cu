// Sums and maxima along axes, in an order that depends on the shape alone.
#include <limits>
#include <vector>

#include "backend/cuda/column_sums.cuh"

namespace transformer {
namespace {

// x [outer, n], dense lines of n: one block for each.
template <class Op, class T, class Y>
__global__ void reduce_lines(const T* x, std::int64_t n, Y* y, float factor, bool accumulate) {
  const T* line = x + blockIdx.x * n;
  float total = Op::start;  // of parts of 16 each: long sums keep their digits
  for (std::int64_t i = threadIdx.x; i < n;) {
    float part = Op::start;
    for (int k = 0; k < 16 && i < n; ++k, i += blockDim.x) part = Op::of(part, to_float(line[i]));
    total = Op::of(total, part);
  }
  total = over_block<Op>(total) * factor;
  if (threadIdx.x == 0) y[blockIdx.x] = from_float<Y>(accumulate ? to_float(y[blockIdx.x]) + total : total);
}

// x [outer, n, inner]: one thread for each result.
template <class Op, class T, class Y>
__global__ void reduce_middle(const T* x, std::int64_t outer, std::int64_t n, std::int64_t inner, Y* y, float factor, bool accumulate) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= outer * inner) return;
  const T* from = x + at / inner * n * inner + at % inner;
  float total = Op::start;
  for (std::int64_t i = 0; i < n;) {
    float part = Op::start;
    for (int k = 0; k < 16 && i < n; ++k, ++i) part = Op::of(part, to_float(from[i * inner]));
    total = Op::of(total, part);
  }
  total *= factor;
  y[at] = from_float<Y>(accumulate ? to_float(y[at]) + total : total);
}

template <class Op>
void reduce_one(Context& ctx, const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, Tensor& y, float factor,
                bool accumulate) {
  visit_device_float("reduce", x.dtype(), [&]<class T>() {
    visit_device_float("reduce", y.dtype(), [&]<class Y>() {
      const T* from = values_of<T>(x);
      Y* to = mutable_values_of<Y>(y);
      if (inner == 1) {
        const unsigned threads = n >= 1024 ? 256 : n >= 256 ? 128 : 32;
        launch(ctx, "reduce", reduce_lines<Op, T, Y>, dim3(static_cast<unsigned>(outer)), dim3(threads), 0, from, n, to, factor,
               accumulate);
      } else if (outer == 1 && n >= 64) {
        reduce_columns<Op>(ctx, "reduce", ElementsOf<T>{{from, inner}}, n, inner, reinterpret_cast<std::uintptr_t>(from) % 16 == 0, to,
                           factor, accumulate);
      } else {
        launch(ctx, "reduce", reduce_middle<Op, T, Y>, dim3(static_cast<unsigned>(blocks_of(outer * inner, 256))), dim3(256), 0, from,
               outer, n, inner, to, factor, accumulate);
      }
    });
  });
}

}  // namespace

void CudaKernels::reduce(Context& ctx, Reduction kind, const Tensor& x, Tensor& y, bool accumulate) {
  if (x.numel() == 0 || y.numel() == 0) {
    if (!accumulate) fill(ctx, kind == Reduction::sum ? 0.0F : std::numeric_limits<float>::quiet_NaN(), y);
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

  // One axis after the other from the last; all but the final result are float32.
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
    if (kind == Reduction::max) reduce_one<Max>(ctx, from, outer, n, inner, to, done ? factor : 1.0F, done && accumulate);
    else reduce_one<Sum>(ctx, from, outer, n, inner, to, done ? factor : 1.0F, done && accumulate);
    if (done) return;
    from = to;
  }
}

void CudaKernels::sum_rows(Context& ctx, const Tensor& x, Tensor& y, bool accumulate) {
  if (x.rows() == 0) {
    if (!accumulate) fill(ctx, 0.0F, y);
    return;
  }
  visit_device_float("sum_rows", x.dtype(), [&]<class T>() {
    reduce_columns<Sum>(ctx, "sum_rows", ElementsOf<T>{rows_of<T>(x)}, x.rows(), x.cols(), is_wide(x), mutable_values_of<float>(y), 1.0F,
                        accumulate);
  });
}

}  // namespace transformer
