#pragma once
// The stack: the one body of all families. An encoder layer is attention and FFN; a decoder layer has
// cross-attention in between.

#include <optional>
#include <vector>

#include "transformer/nn/attention.h"
#include "transformer/nn/feed_forward.h"
#include "transformer/nn/positions.h"
#include "transformer/nn/residual.h"

namespace transformer {

// What a look inside one pass through a stack collects, when asked.
struct StackTrace {
  std::vector<Tensor> hidden_states;     // the input of each layer, then the output of the last
  std::vector<Tensor> attentions;        // per layer: [sequences, heads, longest, longest] float32
  std::vector<Tensor> cross_attentions;  // per layer: [sequences, heads, longest, longest memory] float32

  bool inner = false;                 // also these:
  std::vector<Tensor> projections;    // per layer: Q, K and V side by side, as they meet [tokens, (heads + 2·kv_heads)·head_dim]
  std::vector<Tensor> feed_forwards;  // per layer: between the two products of the FFN [tokens, d_ff]
  Tensor bias, relative_bias;         // on the self-attention scores of all layers, see AttentionCall; may be undefined
};

struct Layer {
  static constexpr bool is_layer = true;
  BlockOrder order = BlockOrder::sequential;
  bool separate_norms = false;
  float drop_path = 0.0F;  // while training, each sublayer is left out of so many samples
  Attention attention;
  std::optional<Attention> cross_attention;
  FeedForward feed_forward;
  Residual around_attention, around_feed_forward;
  std::optional<Residual> around_cross_attention;

  Layer() = default;
  explicit Layer(const StackConfig& resolved);
  // x [tokens, d]; `self` and `cross` carry what is the same for all layers of a call. `inner` receives what is inside the FFN.
  void operator()(Context& ctx, Stream& x, const AttentionCall& self, const AttentionCall& cross, Tensor* inner = nullptr) const;
  void visit(auto&& f) {
    f("attention", attention), f("cross_attention", cross_attention), f("feed_forward", feed_forward);
    f("attention_norm", around_attention.norm);
    if (around_cross_attention) f("cross_attention_norm", around_cross_attention->norm);
    if (order == BlockOrder::sequential || separate_norms) f("feed_forward_norm", around_feed_forward.norm);
  }
};

struct StackInput {
  Tensor x = {};  // [tokens, d]
  Sequences sequences = {};
  Tensor bias = {};  // mask or bias on the self-attention scores, may be undefined
  // Rotary: int32 [tokens], where they are not the tokens' places in their sequences, and one more than the largest of them.
  Tensor positions = {};
  std::int64_t longest = 0;
  Tensor memory = {};  // decoders: the encoder's output [memory tokens, d]
  Sequences memory_sequences = {};
  // The tokens of x that read each memory, one after the other, when they are not one sequence: the hypotheses of a beam
  // all read the memory of their sentence, which then exists once. By default as `sequences`.
  std::optional<Sequences> memory_readers = {};
  Tensor memory_bias = {};  // mask or bias on the cross-attention scores
  // The tokens go on after those of the cache, and are added to it; nothing is recorded. The memory is needed with the
  // first call only, memory_sequences always: sentences that are done may be left out of it (Sequences::with_gaps).
  KVCache* cache = nullptr;
};

struct Stack {
  StackConfig config;
  std::vector<Layer> layers;
  AttentionPositions positions;
  std::optional<Norm> final_norm;

  Stack() = default;
  explicit Stack(const StackConfig& config);
  Tensor operator()(Context& ctx, const StackInput& input, StackTrace* trace = nullptr) const;  // [tokens, d]
  void visit(auto&& f) { f("layers", layers), f("positions", positions), f("final_norm", final_norm); }
};

}  // namespace transformer
