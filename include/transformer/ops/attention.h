#pragma once
// Attention over ragged batches: softmax(scale · Q·Kᵀ + biases) · V for every head of every sequence. Nothing is
// padded, and the matrix of scores is never held whole.

#include <cstdint>

#include "transformer/core/context.h"
#include "transformer/core/sequences.h"
#include "transformer/core/tensor.h"

namespace transformer {

struct AttentionOptions {
  // Where the sequences begin in q, and in k and v; the same count. A sequence may have more keys than queries (a
  // cache of earlier tokens): its queries are then the last positions. self_attention takes `queries` for both. Keys may
  // have gaps or be scattered (Sequences); there are no gradients then.
  Sequences queries = {}, keys = {};
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  // 0: as many as heads; fewer: head h reads key-value head h / (heads / kv_heads)
  std::int64_t head_dim = 1;
  float scale = 0.0F;       // of the scores; 0: 1/√head_dim
  bool causal = false;      // a position sees itself and earlier ones only
  std::int64_t window = 0;  // > 0: and only positions less than this far away
  // Added to the scores; float32, may have gradients. A row with nothing but -inf gives 0.
  Tensor bias = {};           // broadcasts to [sequences, heads, longest queries, longest keys]
  Tensor relative_bias = {};  // [heads, 2·L - 1]: column (key position - query position) + L - 1, L ≥ longest
  float dropout = 0.0F;       // on the weights, while ctx.training()
  Tensor* weights = nullptr;  // receives the weights: float32 [sequences, heads, longest queries, longest keys], zero padded
};

// q [query tokens, heads·head_dim], k and v [key tokens, kv_heads·head_dim] → [query tokens, heads·head_dim].
Tensor attention(Context& ctx, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);

// The same with q, k and v side by side: qkv [tokens, (heads + 2·kv_heads)·head_dim].
Tensor self_attention(Context& ctx, const Tensor& qkv, const AttentionOptions& options);

// The same with k and v side by side: kv [key tokens, 2·kv_heads·head_dim].
Tensor cross_attention(Context& ctx, const Tensor& q, const Tensor& kv, const AttentionOptions& options);

// A mask (any dtype; 0: hidden, anything else: seen) as a bias of the same shape: -inf and 0.
Tensor mask_to_bias(Context& ctx, const Tensor& mask);

}  // namespace transformer
