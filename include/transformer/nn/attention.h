#pragma once
// Multi-head attention: Concat(head_1 … head_h) W_O, head_i = softmax(Q_i K_iᵀ / √d_k) V_i.

#include <optional>

#include "transformer/core/sequences.h"
#include "transformer/nn/cache.h"
#include "transformer/nn/config.h"
#include "transformer/nn/linear.h"
#include "transformer/ops/rope.h"

namespace transformer {

// One call's operands beside the queries.
struct AttentionCall {
  Sequences sequences = {};  // of the queries
  Tensor memory = {};        // cross-attention: what K and V are made of, [memory tokens, d]
  Sequences memory_sequences = {};
  Tensor bias = {};           // any mask or bias that broadcasts to [sequences, heads, longest q, longest k]
  Tensor relative_bias = {};  // by distance, see AttentionPositions
  std::optional<RopeTable> rope = {};
  Tensor position = {};         // int32 [tokens], row of the rope table for each token
  KVCache* cache = nullptr;     // what was seen before, and
  LayerCache* layer = nullptr;  // this layer's part of it
  Tensor* weights = nullptr;    // receives the weights [sequences, heads, longest q, longest k]
  Tensor* projected = nullptr;  // self-attention: receives Q, K and V side by side, turned by RoPE
};

struct Attention {
  std::int64_t heads = 1, kv_heads = 1, head_dim = 1, window = 0, rotary_dim = 0;
  RopePairs rope_pairs = RopePairs::half_split;
  float scale = 0.0F, dropout = 0.0F;
  bool causal = false, cross = false;
  Linear qkv;    // self-attention: Q, K and V in one product
  Linear q, kv;  // cross-attention: Q of the queries, K and V of the memory
  Linear out;

  Attention() = default;
  Attention(const StackConfig& resolved, bool is_cross);
  Tensor operator()(Context& ctx, const Tensor& x, const AttentionCall& call) const;  // x [tokens, d] → [tokens, d]
  void visit(auto&& f) { f("qkv", qkv), f("q", q), f("kv", kv), f("out", out); }
};

}  // namespace transformer
