// A linear layer: what stands around its products is done while their parts are in cache, and its two gradients run side by side.
//   forward   y = dropout(f(x·Wᵀ + b))
//   backward  dz = f'(·) ∘ dropout(dy),  dx = dz·W,  dW = dzᵀ·x,  db = Σ dz over the rows
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/linear.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "backend/cpu/few_rows.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/random-inl.h"
#include "transformer/core/parallel.h"

#ifndef TRANSFORMER_CPU_LINEAR_ONCE
#define TRANSFORMER_CPU_LINEAR_ONCE
namespace transformer {

// y = dropout(f(x)) over rows of y's width; x may be y. Elements are numbered through all of y for the dropout.
struct LinearOutput {
  const void* x;
  void* y;
  std::int64_t x_row, y_row, width;
  DType type;
  Activation activation;
  DropoutArgs dropout;
};

// dz = f'(kept) · dropout(dy), where dz is not dy itself; relu's factor is told by its output after dropout.
struct LinearInput {
  const void *kept, *dy;  // kept may be null
  void* dz;               // null: dz is dy
  std::int64_t kept_row, dy_row, dz_row, width;
  DType type;
  Activation activation;
  DropoutArgs dropout;
};

}  // namespace transformer
#endif

HWY_BEFORE_NAMESPACE();
namespace transformer {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void OutputRows(const LinearOutput& p, std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
  std::vector<float> factor(p.dropout.p > 0.0F ? static_cast<std::size_t>(cols) : 0);
  VisitActivation(p.activation, [&](auto f) HWY_ATTR {
    for (std::int64_t r = row; r < row + rows; ++r) {
      const T* from = static_cast<const T*>(p.x) + r * p.x_row + col;
      T* to = static_cast<T*>(p.y) + r * p.y_row + col;
      if (!factor.empty()) DropoutFactors(p.dropout, static_cast<std::uint64_t>(r * p.width + col), cols, factor.data());
      ForVectors(cols, [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR {
        VF slope, y = f.Apply(LoadSome(whole, from + i, n), slope);
        if (!factor.empty()) y = hn::Mul(y, LoadSome(whole, factor.data() + i, n));
        StoreSome(whole, y, to + i, n);
      });
    }
  });
}

void LinearOutputRows(const LinearOutput& p, std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
  if (p.type == DType::bfloat16) OutputRows<bfloat16>(p, row, col, rows, cols);
  else OutputRows<float>(p, row, col, rows, cols);
}

// Rows [begin, end) of dz; adds them up in sums [width] unless that is null.
template <class T>
void InputRows(const LinearInput& p, std::int64_t begin, std::int64_t end, float* HWY_RESTRICT sums) {
  const bool relu = p.activation == Activation::relu, drops = p.dropout.p > 0.0F;
  std::vector<float> factor(drops && !relu ? static_cast<std::size_t>(p.width) : 0);
  const VF kept_factor = hn::Set(DF(), drops && relu ? 1.0F / (1.0F - p.dropout.p) : 1.0F);
  if (sums != nullptr) std::fill_n(sums, p.width, 0.0F);
  VisitActivation(p.activation, [&](auto f) HWY_ATTR {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* kept = p.kept != nullptr ? static_cast<const T*>(p.kept) + r * p.kept_row : nullptr;
      const T* dy = static_cast<const T*>(p.dy) + r * p.dy_row;
      T* dz = p.dz != nullptr ? static_cast<T*>(p.dz) + r * p.dz_row : nullptr;
      if (!factor.empty()) DropoutFactors(p.dropout, static_cast<std::uint64_t>(r * p.width), p.width, factor.data());
      ForVectors(p.width, [&](std::int64_t i, auto whole, std::int64_t n) HWY_ATTR {
        VF d = LoadSome(whole, dy + i, n);
        if (dz != nullptr) {
          if (!factor.empty()) d = hn::Mul(d, LoadSome(whole, factor.data() + i, n));
          if (kept != nullptr) {
            VF slope;
            f.Apply(LoadSome(whole, kept + i, n), slope);
            d = hn::Mul(hn::Mul(slope, kept_factor), d);
          }
          StoreSome(whole, d, dz + i, n);
          d = LoadSome(whole, dz + i, n);  // as stored: what the products see
        }
        if (sums != nullptr) StoreSome(whole, hn::Add(LoadSome(whole, sums + i, n), d), sums + i, n);
      });
    }
  });
}

void LinearInputRows(const LinearInput& p, std::int64_t begin, std::int64_t end, float* sums) {
  if (p.type == DType::bfloat16) InputRows<bfloat16>(p, begin, end, sums);
  else InputRows<float>(p, begin, end, sums);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace transformer
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace transformer {
HWY_EXPORT(LinearOutputRows);
HWY_EXPORT(LinearInputRows);

namespace {

// What the products here take; the composed kernels do the rest.
bool is_ordinary(const Tensor& rows, const Tensor& weight) {
  return rows.rows() > few_rows && weight.numel() > 0 && (rows.dtype() == DType::float32 || rows.dtype() == DType::bfloat16) &&
      weight.dtype() == rows.dtype();
}

}  // namespace

void CpuKernels::linear(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, Tensor& y, Tensor& kept) {
  const bool at_once = !kept.defined() || kept.same_memory(y), drops = args.dropout.p > 0.0F;
  if (!is_ordinary(x, weight) || ctx.row_invariant() || (at_once && !drops)) return Kernels::linear(ctx, x, weight, args, y, kept);
  Tensor& to = at_once ? y : kept;
  MatmulCache::Product product = product_of(
      x, weight, to, {.transpose_b = true, .bias = args.bias, .activation = at_once ? args.activation : Activation::none});
  const LinearOutput output{.x = to.raw(),
                            .y = y.mutable_raw(),
                            .x_row = to.row_stride(),
                            .y_row = y.row_stride(),
                            .width = y.cols(),
                            .type = y.dtype(),
                            .activation = at_once ? Activation::none : args.activation,
                            .dropout = args.dropout};
  product.after = [&output](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    HWY_DYNAMIC_DISPATCH(LinearOutputRows)(output, row, col, rows, cols);
  };
  matmuls_->run(ctx, {&product, 1});
}

void CpuKernels::linear_backward(Context& ctx, const Tensor& x, const Tensor& weight, const LinearArgs& args, const Tensor& kept,
                                 const Tensor& dy, LinearGradients& out) {
  const bool sums = out.dbias.defined();
  if (!is_ordinary(dy, weight) || (sums && out.dbias.dtype() != DType::float32))
    return Kernels::linear_backward(ctx, x, weight, args, kept, dy, out);
  const std::int64_t rows = dy.rows(), cols = dy.cols();
  const bool changes = args.activation != Activation::none || args.dropout.p > 0.0F;
  Tensor dz = changes ? Tensor::like(ctx, dy) : dy;
  const LinearInput input{.kept = args.activation != Activation::none ? kept.raw() : nullptr,
                          .dy = dy.raw(),
                          .dz = changes ? dz.mutable_raw() : nullptr,
                          .kept_row = kept.defined() ? kept.row_stride() : 0,
                          .dy_row = dy.row_stride(),
                          .dz_row = dz.row_stride(),
                          .width = cols,
                          .type = dy.dtype(),
                          .activation = args.activation,
                          .dropout = args.dropout};
  // The bias's gradient is summed in blocks of rows, which depend on their number alone.
  const std::int64_t block = std::max<std::int64_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
  const Tensor parts = sums ? Tensor::empty(ctx, {blocks, cols}) : Tensor();
  float* const part = sums ? const_cast<Tensor&>(parts).mutable_data<float>() : nullptr;
  const auto rows_of = [&](std::int64_t i) {
    HWY_DYNAMIC_DISPATCH(LinearInputRows)(input, i * block, std::min(rows, (i + 1) * block), sums ? part + i * cols : nullptr);
  };
  if (changes) {
    const std::int64_t grain = std::max<std::int64_t>(1, 8192 / (block * std::max<std::int64_t>(cols, 1)));
    parallel_for(ctx.threads(), blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) rows_of(i);
    });
  }
  std::vector<MatmulCache::Product> products;
  if (out.dx.defined()) products.push_back(product_of(dz, weight, out.dx, {.accumulate = out.accumulate_dx}));
  if (out.dweight.defined())
    products.push_back(product_of(dz, x, out.dweight, {.transpose_a = true, .accumulate = out.accumulate_dweight}));
  matmuls_->run(ctx, products, sums && !changes ? blocks : 0, rows_of);
  if (sums) sum_rows(ctx, parts, out.dbias, out.accumulate_dbias);
}

}  // namespace transformer
#endif
