#include "transformer/nn/attention.h"

#include <numbers>

#include "transformer/ops/attention.h"
#include "transformer/ops/copy.h"

namespace transformer {

Attention::Attention(const StackConfig& c, bool is_cross)
    : heads(c.heads), kv_heads(c.kv_heads), head_dim(c.head_dim), window(is_cross ? 0 : c.window), rotary_dim(c.rotary_dim),
      rope_pairs(c.rope_pairs), scale(c.attention_scale), dropout(c.attention_dropout), causal(c.causal && !is_cross), cross(is_cross),
      out(c.heads * c.head_dim, c.d_model, c.out_bias) {
  const std::int64_t wide = heads * head_dim, narrow = kv_heads * head_dim;
  if (cross) {
    q = Linear(c.d_model, wide, c.qkv_bias);
    kv = Linear(c.d_model, {narrow, narrow}, c.qkv_bias);
  } else {
    qkv = Linear(c.d_model, {wide, narrow, narrow}, c.qkv_bias);
  }
  // As torch.nn.MultiheadAttention, which takes Q, K and V for one matrix of 3·d rows: smaller scores in the beginning, without
  // which a deep post-norm model learns to attend late or never.
  for (Linear* projection : {&qkv, &q, &kv}) projection->weight.gain = std::numbers::sqrt2_v<float> / 2.0F;
}

Tensor Attention::operator()(Context& ctx, const Tensor& x, const AttentionCall& call) const {
  AttentionOptions options{.queries = call.sequences,
                           .keys = cross ? call.memory_sequences : call.sequences,
                           .heads = heads,
                           .kv_heads = kv_heads,
                           .head_dim = head_dim,
                           .scale = scale,
                           .causal = causal,
                           .window = window,
                           .bias = call.bias,
                           .relative_bias = call.relative_bias,
                           .dropout = dropout,
                           .weights = call.weights};
  if (cross) {
    if (!call.memory.defined() && (call.layer == nullptr || !call.layer->memory.defined()))
      fail("attention", "cross-attention needs the encoder's output as memory");
    Tensor memory = call.memory.defined() ? kv(ctx, call.memory) : Tensor();  // of sources that have come
    if (call.layer != nullptr) {
      if (memory.defined()) call.cache->append_memory(ctx, *call.layer, memory);
      memory = call.layer->memory;
    }
    return out(ctx, cross_attention(ctx, q(ctx, x), memory, options));
  }
  Tensor h = qkv(ctx, x);  // [tokens, (heads + 2·kv_heads)·head_dim]
  if (call.rope)           // Q and K lie side by side: one turn for both
    h = rope(ctx, h, call.position, *call.rope,
             {.heads = heads + kv_heads, .head_dim = head_dim, .rotary_dim = rotary_dim, .pairs = rope_pairs});
  if (call.projected != nullptr) *call.projected = h;
  if (call.cache == nullptr) return out(ctx, self_attention(ctx, h, options));
  const std::int64_t wide = heads * head_dim;
  call.cache->append(ctx, *call.layer, h.column_block(wide, 2 * kv_heads * head_dim));
  options.keys = call.cache->keys();
  return out(ctx, cross_attention(ctx, h.column_block(0, wide), call.layer->self, options));
}

}  // namespace transformer
