#include "backend/cpu/matmul.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "backend/cpu/few_rows.h"
#include "backend/cpu/kernels.h"

namespace transformer {
namespace {

constexpr std::int64_t split_from = 8192, split_parts = 8;  // lengths of sums that are cut, and into how many parts
constexpr int split_threads = 4;                            // fewer read them as well in one piece

}  // namespace

MatmulCache::Product product_of(const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) {
  MatmulCache::Product product;
  MatmulCache::Problem& p = product.problem;
  // A batch whose b is shared and whose a and c are plain is one tall product.
  const bool batched = a.rank() == 3 && a.dim(0) != 1 &&
      (b.rank() == 3 && b.dim(0) != 1 ? true : args.transpose_a || !a.is_contiguous() || !c.is_contiguous());
  auto rows_of = [&](const Tensor& t) { return batched || t.rank() < 3 ? t.dim(-2) : t.dim(0) * t.dim(-2); };
  p.batch = batched ? a.dim(0) : 1;
  p.m = rows_of(c);
  p.n = c.dim(-1);
  p.k = args.transpose_a ? rows_of(a) : a.dim(-1);
  p.a_row = args.transpose_a ? 1 : a.row_stride();
  p.a_col = args.transpose_a ? a.row_stride() : 1;
  p.b_row = args.transpose_b ? 1 : b.row_stride();
  p.b_col = args.transpose_b ? b.row_stride() : 1;
  p.c_row = c.row_stride();
  if (batched) {
    p.a_batch = a.dim(-2) * a.row_stride();
    p.b_batch = b.rank() == 3 && b.dim(0) != 1 ? b.dim(-2) * b.row_stride() : 0;
    p.c_batch = c.dim(-2) * c.row_stride();
  }
  p.in = a.dtype();
  p.out = c.dtype();
  p.accumulate = args.accumulate;
  p.alpha = args.alpha;
  p.activation = args.activation;
  p.has_bias = args.bias.defined();
  if (p.has_bias) p.bias = args.bias.dtype();
  if (p.has_bias && p.alpha != 1.0F) fail("matmul", "alpha together with a bias is not supported");
  product.a = a.raw(), product.b = b.raw(), product.bias = p.has_bias ? args.bias.raw() : nullptr, product.c = c.mutable_raw();
  return product;
}

void CpuKernels::matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) {
  const MatmulCache::Product product = product_of(a, b, c, args);
  const MatmulCache::Problem& p = product.problem;
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {  // an empty sum
    if (p.has_bias) fail("matmul", "inner size 0 together with a bias is not supported");
    if (!p.accumulate) fill(ctx, 0.0F, c);
    return;
  }
  const bool plain = p.batch == 1 && !args.transpose_a && args.transpose_b && !p.accumulate && p.alpha == 1.0F && p.in == p.out;
  if (plain && (p.m <= few_rows || ctx.row_invariant()) && p.in == b.dtype() && (p.in == DType::float32 || p.in == DType::bfloat16))
    return multiply_few_rows(ctx,
                             {.m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .a = a.raw(),
                              .w = b.raw(),
                              .bias = p.has_bias ? args.bias.raw() : nullptr,
                              .c = c.mutable_raw(),
                              .a_row = p.a_row,
                              .w_row = p.b_col,
                              .c_row = p.c_row,
                              .type = p.in,
                              .bias_type = p.bias,
                              .activation = p.activation});
  if (ctx.threads() >= split_threads && p.batch == 1 && p.k >= split_from && p.m * p.n <= p.k * 32 && !p.has_bias &&
      p.activation == Activation::none && c.is_contiguous())
    return split_matmul(ctx, a, b, c, args);
  matmuls_->run(ctx, {&product, 1});
}

// A product of few results, each a long sum: the sums are cut, so that every thread reads a part of a and b once.
void CpuKernels::split_matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) {
  const MatmulCache::Product whole = product_of(a, b, c, args);
  const MatmulCache::Problem& p = whole.problem;
  const std::int64_t length = (p.k + split_parts - 1) / split_parts;
  Tensor parts = Tensor::empty(ctx, {split_parts, p.m * p.n}), total = Tensor::empty(ctx, {p.m, p.n});
  std::vector<MatmulCache::Product> products;
  for (std::int64_t begin = 0; begin < p.k; begin += length) {
    MatmulCache::Product& part = products.emplace_back(whole);
    part.problem.k = std::min(length, p.k - begin);
    part.problem.out = DType::float32, part.problem.c_row = p.n, part.problem.accumulate = false;
    const auto step = static_cast<std::int64_t>(size_of(p.in)) * begin;
    part.a = static_cast<const std::byte*>(whole.a) + step * p.a_col;
    part.b = static_cast<const std::byte*>(whole.b) + step * p.b_row;
    part.c = parts.row_block(std::ssize(products) - 1, 1).mutable_raw();
  }
  matmuls_->run(ctx, products);
  Tensor flat = total.view({p.m * p.n});
  sum_rows(ctx, parts.row_block(0, std::ssize(products)), flat, false);
  Tensor to = c.view({p.m, p.n});
  if (p.accumulate) add_to(ctx, total, to);
  else copy(ctx, total, to);
}

}  // namespace transformer
