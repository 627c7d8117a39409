#include "backend/cpu/few_rows.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/matmul_cache.h"

namespace transformer {

void CpuKernels::matmul(Context& ctx, const Tensor& a, const Tensor& b, Tensor& c, const MatmulArgs& args) {
  // A batch whose b is shared and whose a and c are plain is one tall product.
  const bool batched = a.rank() == 3 && a.dim(0) != 1 &&
      (b.rank() == 3 && b.dim(0) != 1 ? true : args.transpose_a || !a.is_contiguous() || !c.is_contiguous());
  auto rows_of = [&](const Tensor& t) { return batched || t.rank() < 3 ? t.dim(-2) : t.dim(0) * t.dim(-2); };
  MatmulCache::Problem p;
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
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (p.k == 0) {  // an empty sum
    if (p.has_bias) fail("matmul", "inner size 0 together with a bias is not supported");
    if (!p.accumulate) fill(ctx, 0.0F, c);
    return;
  }
  const bool plain = !batched && !args.transpose_a && args.transpose_b && !p.accumulate && p.alpha == 1.0F && p.in == p.out;
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
  matmuls_->run(ctx, p, a.raw(), b.raw(), p.has_bias ? args.bias.raw() : nullptr, c.mutable_raw());
}

}  // namespace transformer
