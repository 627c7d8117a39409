// Attention: which kernels do a call. bfloat16 goes to the matrix units wherever its rows allow it, few queries against many keys
// are split over the keys, and everything else is done in float32.

#include <algorithm>

#include "backend/cuda/attention.cuh"
#include "backend/cuda/kernels.h"
#include "backend/cuda/types.cuh"

namespace transformer {
namespace {

TokenRows token_rows(const Tensor& t) { return {const_cast<std::byte*>(t.raw()), t.row_stride()}; }
TokenRows mutable_token_rows(Tensor& t) { return t.defined() ? TokenRows{t.mutable_raw(), t.row_stride()} : TokenRows{}; }

AttentionProblem problem_of(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  AttentionProblem p;
  p.queries = on_device(ctx, args.queries), p.keys = on_device(ctx, args.keys);
  p.heads = static_cast<int>(args.heads), p.kv_heads = static_cast<int>(args.kv_heads), p.head_dim = static_cast<int>(args.head_dim);
  p.scale = args.scale;
  p.causal = args.causal;
  p.window = static_cast<int>(std::min<std::int64_t>(args.window, 1 << 30));
  if (args.bias.defined()) p.bias = values_of<float>(args.bias), p.bias_strides = BiasStrides(args.bias, args.bias.row_stride());
  if (args.relative_bias.defined()) {
    p.relative = values_of<float>(args.relative_bias);
    p.relative_stride = args.relative_bias.row_stride();
    p.relative_longest = static_cast<int>((args.relative_bias.dim(1) + 1) / 2);
  }
  if (args.dropout.p > 0.0F) p.dropout = Dropout(ctx, args.dropout), p.philox_keys = PhiloxKeys(args.dropout.stream.seed);
  p.dropout_groups = args.dropout_row() / 64;
  p.q = token_rows(q), p.k = token_rows(k), p.v = token_rows(v);
  return p;
}

}  // namespace

void CudaKernels::attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args, Tensor& out,
                            Tensor& lse, Tensor& weights) {
  AttentionProblem p = problem_of(ctx, q, k, v, args);
  p.out = mutable_token_rows(out);
  p.lse = mutable_values_of<float>(lse);
  p.weights = mutable_values_of<float>(weights);
  const bool done = decode_attention(ctx, q.dtype(), p) || (q.dtype() == DType::bfloat16 && mma_attention(ctx, p));
  if (!done) general_attention(ctx, q.dtype(), p);
  if (p.weights) attention_weights(ctx, q.dtype(), p);
}

void CudaKernels::attention_backward(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args,
                                     const Tensor& out, const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv,
                                     Tensor& dbias, Tensor& drelative_bias) {
  AttentionProblem p = problem_of(ctx, q, k, v, args);
  p.out = token_rows(out), p.dout = token_rows(dout);
  p.dq = mutable_token_rows(dq), p.dk = mutable_token_rows(dk), p.dv = mutable_token_rows(dv);
  p.lse = const_cast<float*>(values_of<float>(lse));
  Tensor stats = Tensor::empty(ctx, {args.heads, args.queries.total(), 2});
  p.stats = reinterpret_cast<float2*>(mutable_values_of<float>(stats));
  const DType dtype = q.dtype();
  const bool matrix_units = dtype == DType::bfloat16;
  if (matrix_units && !drelative_bias.defined() && short_attention_backward(ctx, p)) {
    if (dbias.defined()) attention_stats(ctx, dtype, p), attention_bias_backward(ctx, dtype, p, dbias, drelative_bias);
  } else if (matrix_units && mma_attention_backward(ctx, p, drelative_bias)) {
    Tensor done;
    attention_bias_backward(ctx, dtype, p, dbias, done);
  } else {
    attention_stats(ctx, dtype, p);
    general_attention_backward(ctx, dtype, p);
    attention_bias_backward(ctx, dtype, p, dbias, drelative_bias);
  }
}

}  // namespace transformer
