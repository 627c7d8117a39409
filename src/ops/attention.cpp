#include "transformer/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/dropout_args.h"
#include "transformer/autograd/autograd.h"
#include "transformer/ops/check.h"

namespace transformer {
namespace {

std::int64_t kv_heads_of(const AttentionOptions& o) { return o.kv_heads == 0 ? o.heads : o.kv_heads; }

void check_options(Context& ctx, std::string_view op, const AttentionOptions& o) {
  if (o.heads < 1 || o.head_dim < 1 || o.kv_heads < 0)
    fail(op, "{} heads of {} dimensions and {} key-value heads were asked for: expected 1 or more", o.heads, o.head_dim, o.kv_heads);
  if (o.heads % kv_heads_of(o) != 0) fail(op, "{} heads cannot share {} key-value heads evenly", o.heads, o.kv_heads);
  if (o.window < 0) fail(op, "the window is {}: expected 0 (none) or more", o.window);
  if (o.queries.count() != o.keys.count())
    fail(op, "{} sequences of queries and {} of keys were given: expected equal counts", o.queries.count(), o.keys.count());
  if (!o.queries.packed()) fail(op, "the sequences of the queries have gaps: expected them one after the other");
  const std::int64_t longest_q = o.queries.longest(), longest_k = o.keys.longest();
  if (o.bias.defined()) {
    check_operand(ctx, op, "bias", o.bias);
    const Shape scores{o.queries.count(), o.heads, longest_q, longest_k};
    if (o.bias.dtype() != DType::float32) fail(op, "bias {} is {}, expected float32", o.bias.shape(), o.bias.dtype());
    if (!o.bias.shape().broadcasts_to(scores))
      fail(op, "bias {} does not broadcast to {} = [sequences, heads, longest queries, longest keys]", o.bias.shape(), scores);
  }
  if (o.relative_bias.defined()) {
    check_operand(ctx, op, "relative_bias", o.relative_bias);
    const Shape& s = o.relative_bias.shape();
    const std::int64_t longest = std::max<std::int64_t>(1, std::max(longest_q, longest_k));
    if (o.relative_bias.dtype() != DType::float32) fail(op, "relative_bias {} is {}, expected float32", s, o.relative_bias.dtype());
    if (s.rank() != 2 || s[0] != o.heads || s[1] % 2 == 0 || s[1] < 2 * longest - 1)
      fail(op, "relative_bias is {}: expected [{}, 2·L - 1] with L of {} (the longest sequence) or more", s, o.heads, longest);
  }
}

// `heads` heads side by side for all tokens of the sequences.
void check_tokens(Context& ctx, std::string_view op, std::string_view name, const Tensor& t, const Sequences& sequences, std::int64_t heads,
                  std::int64_t head_dim) {
  check_float(ctx, op, name, t);
  if (t.rank() < 2 || t.cols() != heads * head_dim)
    fail(op, "{} is {}: expected [{}, {}], that is {} heads of {}", name, t.shape(), sequences.total(), heads * head_dim, heads, head_dim);
  if (t.rows() != sequences.total())
    fail(op, "{} {} has {} tokens, but its sequences have {}", name, t.shape(), t.rows(), sequences.total());
}

// Gradients of keys with gaps would hold rows that belong to no sequence, those of scattered ones would meet in one row.
void check_gradient(std::string_view op, const Sequences& keys) {
  if (!keys.packed()) fail(op, "keys with gaps have no gradient: pack them, or compute under NoGradients");
}

void check_dtype(std::string_view op, std::string_view name, const Tensor& t, const Tensor& q) {
  if (t.dtype() != q.dtype()) fail(op, "q {} is {} and {} {} is {}: cast one of them", q.shape(), q.dtype(), name, t.shape(), t.dtype());
}

// One call, and what its backward needs. q, k and v may be column blocks.
struct Call {
  AttentionArgs args;
  Tensor q, k, v, out, lse;  // lse: float32 [heads, query tokens]

  Call(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o)
      : args{.queries = o.queries,
             .keys = o.keys,
             .heads = o.heads,
             .kv_heads = kv_heads_of(o),
             .head_dim = o.head_dim,
             .scale = o.scale != 0.0F ? o.scale : 1.0F / std::sqrt(static_cast<float>(o.head_dim)),
             .causal = o.causal,
             .window = o.window,
             .bias = o.bias.detach(),
             .relative_bias = o.relative_bias.detach(),
             .dropout = {}},
        q(q.detach()), k(k.detach()), v(v.detach()), out(Tensor::empty(ctx, q.shape(), q.dtype())),
        lse(Tensor::empty(ctx, {o.heads, o.queries.total()})) {
    args.dropout = dropout_args(ctx, "attention", o.dropout);
    Tensor weights;
    if (o.weights) weights = Tensor::empty(ctx, {o.queries.count(), o.heads, o.queries.longest(), o.keys.longest()});
    kernels(ctx).attention(ctx, this->q, this->k, this->v, args, out, lse, weights);
    if (o.weights) *o.weights = weights;
  }

  // Writes dq, dk and dv (undefined: not wanted) and adds to the gradients of the biases.
  void backward(Context& ctx, const Tensor& dout, Tensor dq, Tensor dk, Tensor dv, GradientSlot& bias, GradientSlot& relative_bias) const {
    auto summed = [&](GradientSlot& slot) {
      if (!slot.needed()) return Tensor();
      auto [t, accumulate] = slot.target(ctx);
      if (!accumulate) kernels(ctx).fill(ctx, 0.0F, t);
      return t;
    };
    Tensor dbias = summed(bias), drelative = summed(relative_bias);
    kernels(ctx).attention_backward(ctx, q, k, v, args, out, lse, dout, dq, dk, dv, dbias, drelative);
  }
};

Tensor like_if(Context& ctx, bool wanted, const Tensor& t) { return wanted ? Tensor::like(ctx, t) : Tensor(); }
Tensor columns(const Tensor& t, std::int64_t begin, std::int64_t count) { return t.defined() ? t.column_block(begin, count) : Tensor(); }

}  // namespace

Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  check_options(ctx, "attention", options);
  check_tokens(ctx, "attention", "q", q, options.queries, options.heads, options.head_dim);
  check_tokens(ctx, "attention", "k", k, options.keys, kv_heads_of(options), options.head_dim);
  check_tokens(ctx, "attention", "v", v, options.keys, kv_heads_of(options), options.head_dim);
  check_dtype("attention", "k", k, q);
  check_dtype("attention", "v", v, q);
  const Call call(ctx, q, k, v, options);
  if (!records(ctx, {q, k, v, options.bias, options.relative_bias})) return call.out;
  check_gradient("attention", options.keys);
  return record(ctx, call.out, {q, k, v, options.bias, options.relative_bias}, [call](Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor dq = like_if(ctx, in[0].needed(), call.q), dk = like_if(ctx, in[1].needed(), call.k),
                 dv = like_if(ctx, in[2].needed(), call.v);
    call.backward(ctx, dy, dq, dk, dv, in[3], in[4]);
    if (dq.defined()) in[0].add(ctx, dq);
    if (dk.defined()) in[1].add(ctx, dk);
    if (dv.defined()) in[2].add(ctx, dv);
  });
}

Tensor self_attention(Context& ctx, const Tensor& qkv, const AttentionOptions& given) {
  AttentionOptions options = given;
  options.keys = options.queries;
  check_options(ctx, "self_attention", options);
  const std::int64_t kv_heads = kv_heads_of(options), q_cols = options.heads * options.head_dim, kv_cols = kv_heads * options.head_dim;
  check_tokens(ctx, "self_attention", "qkv", qkv, options.queries, options.heads + 2 * kv_heads, options.head_dim);
  const Call call(ctx, qkv.column_block(0, q_cols), qkv.column_block(q_cols, kv_cols), qkv.column_block(q_cols + kv_cols, kv_cols),
                  options);
  if (!records(ctx, {qkv, options.bias, options.relative_bias})) return call.out;
  return record(ctx, call.out, {qkv, options.bias, options.relative_bias},
                [call, q_cols, kv_cols, shape = qkv.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    Tensor dqkv;
    if (in[0].needed()) dqkv = Tensor::empty(ctx, shape, call.q.dtype());
    call.backward(ctx, dy, columns(dqkv, 0, q_cols), columns(dqkv, q_cols, kv_cols), columns(dqkv, q_cols + kv_cols, kv_cols), in[1],
                  in[2]);
    if (in[0].needed()) in[0].add(ctx, dqkv);
  });
}

Tensor cross_attention(Context& ctx, const Tensor& q, const Tensor& kv, const AttentionOptions& options) {
  check_options(ctx, "cross_attention", options);
  const std::int64_t cols = kv_heads_of(options) * options.head_dim;
  check_tokens(ctx, "cross_attention", "q", q, options.queries, options.heads, options.head_dim);
  check_tokens(ctx, "cross_attention", "kv", kv, options.keys, 2 * kv_heads_of(options), options.head_dim);
  check_dtype("cross_attention", "kv", kv, q);
  const Call call(ctx, q, kv.column_block(0, cols), kv.column_block(cols, cols), options);
  if (!records(ctx, {q, kv, options.bias, options.relative_bias})) return call.out;
  check_gradient("cross_attention", options.keys);
  return record(ctx, call.out, {q, kv, options.bias, options.relative_bias},
                [call, cols, shape = kv.shape()](Context& ctx, const Tensor& dy, Slots& in) {
    const Tensor dq = like_if(ctx, in[0].needed(), call.q);
    Tensor dkv;
    if (in[1].needed()) dkv = Tensor::empty(ctx, shape, call.k.dtype());
    call.backward(ctx, dy, dq, columns(dkv, 0, cols), columns(dkv, cols, cols), in[2], in[3]);
    if (in[0].needed()) in[0].add(ctx, dq);
    if (in[1].needed()) in[1].add(ctx, dkv);
  });
}

// With m = min(1, |mask| · much), which is 0 or 1: 1 - 1/m.
Tensor mask_to_bias(Context& ctx, const Tensor& mask) {
  check_operand(ctx, "mask_to_bias", "mask", mask);
  Tensor m = Tensor::empty(ctx, mask.shape());
  const Tensor one = Tensor::full(ctx, {1}, 1.0F);
  Kernels& kernel = kernels(ctx);
  kernel.copy(ctx, mask, m);
  kernel.unary(ctx, Unary::abs, m, m);
  kernel.scale(ctx, 1e38F, m, m);
  kernel.binary(ctx, Binary::min, m, one, m);
  kernel.binary(ctx, Binary::div, one, m, m);
  kernel.binary(ctx, Binary::sub, one, m, m);
  return m;
}

}  // namespace transformer
