#pragma once
// What can differ between Transformers: BERT, GPT-2, LLaMA, T5, BART, ViT are settings of this one struct.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "transformer/core/types.h"

namespace transformer {

enum class NormPlace : std::uint8_t {
  pre,   // x + Sub(Norm(x)), with one final norm: modern
  post,  // Norm(x + Sub(x)): the original
};
enum class PositionKind : std::uint8_t {
  none,
  sinusoidal,         // added to the embeddings: sin and cos of pos / 10000^(2i/d), one beside the other
  learned,            // added to the embeddings: a trained table
  relative,           // added to the scores: a trained value per head and bucket of distance (T5)
  rotary,             // Q and K are turned by an angle that grows with the position (RoPE)
  alibi,              // added to the scores: −slope · distance, one slope per head
  sinusoidal_halves,  // as sinusoidal, but all sines come first, then all cosines (Marian)
};
enum class FeedForwardKind : std::uint8_t { relu, gelu, gelu_tanh, silu, geglu, geglu_tanh, swiglu, reglu };
enum class BlockOrder : std::uint8_t {
  sequential,  // attention, then FFN
  parallel,    // x + Attention(Norm(x)) + FFN(Norm(x)): PaLM, Falcon
};

// RoPE for contexts longer than those of the first training: its frequencies f are changed.
enum class RopeScaling : std::uint8_t {
  none,
  linear,   // f / factor
  dynamic,  // a larger base as soon as a sequence is longer than original_positions
  llama3,   // f / factor for wavelengths longer than original_positions, untouched for short ones, between in between
  yarn,     // the same by the number of turns in original_positions, and cosines and sines are scaled
};
struct RopeConfig {
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  std::int64_t original_positions = 0;         // dynamic, llama3, yarn
  double low_factor = 1.0, high_factor = 4.0;  // llama3: between the wavelengths original_positions / low and / high
  double fast_turns = 32.0, slow_turns = 1.0;  // yarn: so many turns stay as they are; so few are divided
  bool whole_pairs = true;                     // yarn: the range between is rounded to whole pairs
  double table_scale = 1.0;                    // yarn: of cosines and sines
};

// The names of the values in config.json and on the command line.
std::vector<std::pair<NormKind, std::string_view>> names(NormKind);
std::vector<std::pair<NormPlace, std::string_view>> names(NormPlace);
std::vector<std::pair<PositionKind, std::string_view>> names(PositionKind);
std::vector<std::pair<FeedForwardKind, std::string_view>> names(FeedForwardKind);

struct StackConfig {
  std::int64_t d_model = 512;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;  // 0: as many as heads; fewer: grouped (Mistral, Falcon)
  std::int64_t head_dim = 0;  // 0: d_model / heads
  std::int64_t d_ff = 2048;
  std::int64_t layers = 6;
  NormKind norm = NormKind::layer_norm;
  NormPlace norm_place = NormPlace::post;
  float norm_eps = 1e-5F;
  bool batch_norm = false;  // norms take each feature over all tokens of the batch (PatchTST); `norm` and norm_bias do not count
  bool final_norm = false;  // a norm after the last layer
  FeedForwardKind feed_forward = FeedForwardKind::relu;
  BlockOrder order = BlockOrder::sequential;
  bool separate_norms = false;  // parallel order: the FFN has a norm of its own
  bool qkv_bias = true, out_bias = true, ffn_bias = true, norm_bias = true;
  float attention_scale = 0.0F;            // 0: 1/√head_dim
  bool causal = false;                     // a token sees only itself and those before it
  std::int64_t window = 0;                 // > 0: sees at most this many tokens back
  std::vector<std::int64_t> windows = {};  // one per layer, instead of `window`
  bool scale_by_layer = false;             // the scores of layer i, from 0, are divided by i + 1 (a setting of GPT-2)
  bool cross_attention = false;            // a decoder that reads an encoder's output
  PositionKind positions = PositionKind::none;
  std::int64_t max_positions = 5000;                                // of sinusoidal, learned and rotary tables
  std::int64_t relative_buckets = 32, relative_max_distance = 128;  // T5
  float rope_base = 10000.0F;
  std::int64_t rotary_dim = 0;  // 0: the whole head
  RopeConfig rope = {};
  RopePairs rope_pairs = RopePairs::half_split;
  float dropout = 0.0F;                    // after each sublayer
  float attention_output_dropout = -1.0F;  // after attention, where it differs from `dropout`
  float attention_dropout = 0.0F;          // on the attention weights
  float ffn_dropout = 0.0F;                // inside the FFN, after the activation
  float drop_path = 0.0F;  // stochastic depth: the last layer's sublayers are left out of so many samples; the first one's never

  // Fills in the zeros that mean "derived" and refuses what cannot be: Error says which setting and why.
  StackConfig resolved() const;
};

}  // namespace transformer
