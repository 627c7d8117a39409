#pragma once
// An encoder that reads a source and a decoder that writes a target: the one body of the original Transformer, T5, BART and its
// relatives. `Transformer` (models/transformer.h) is this body with the original's settings,
// `EncoderDecoderModel` a checkpoint of any of these families, `EncoderDecoderView` (generate/decoder.h) what the searches see of it.

#include <optional>

#include "transformer/nn/embedding.h"
#include "transformer/nn/stack.h"

namespace transformer {

// A stack with what stands in front of it: a table of tokens (or none), positions, a norm, dropout.
struct EmbeddedStackConfig {
  StackConfig stack = {};
  std::int64_t vocabulary = 0;          // 0: no table: vectors are given, or the table of the other side is used
  std::int64_t padding = -1;            // the token whose row learns nothing from being looked up
  float embedding_scale = 1.0F;         // of the rows that are looked up
  float embedding_deviation = 0.02F;    // of a fresh table
  std::int64_t position_offset = 0;     // rows of a learned table of positions that are not used (BART)
  bool positions_skip_padding = false;  // sinusoids of TokenPositions instead of those of the stack's settings (M2M100)
  bool embedding_norm = false;          // a norm after the positions (BART)
  float dropout = 0.0F;                 // of the embeddings
  float final_dropout = 0.0F;           // behind the stack (T5)
};

// M2M100's sinusoids: frequencies from 1 down to 1/10000 itself, sines, then cosines. Token n of those that are not padding has position
// padding + n, and padding none.
struct TokenPositions {
  std::int64_t positions = 0, d = 0, padding = -1;
  Lazy<Tensor> computed;  // [padding + 1 + positions, d]

  // x [tokens, d] + PE of ids [tokens], which go on after `starts` tokens of each sequence
  Tensor operator()(Context& ctx, const Tensor& x, const Tensor& ids, const Sequences& sequences,
                    std::span<const std::int64_t> starts) const;
};

struct EmbeddedStack {
  std::optional<TokenEmbedding> embedding;
  AddedPositions positions;
  std::optional<TokenPositions> token_positions;  // instead of `positions`
  std::optional<Norm> norm;
  float dropout = 0.0F, final_dropout = 0.0F;
  Stack stack;

  EmbeddedStack() = default;
  explicit EmbeddedStack(const EmbeddedStackConfig& config);
  // An encoder. input: ids [tokens], or vectors [tokens, d] when there is no table → [tokens, d]. bias: a mask or bias that
  // broadcasts to [sequences, heads, q, k].
  Tensor operator()(Context& ctx, const Tensor& input, const Sequences& sequences, const Tensor& bias = {},
                    StackTrace* trace = nullptr) const;
  // ids [tokens], looked up in `table` (its own by default), as they go into the stack.
  Tensor embed(Context& ctx, const Tensor& ids, const Sequences& sequences, const TokenEmbedding* table = nullptr,
               const KVCache* cache = nullptr) const;
  // x [tokens, d] plus positions (which go on after the cache's, if given), normed, dropped out.
  Tensor prepare(Context& ctx, const Tensor& x, const Sequences& sequences, const KVCache* cache = nullptr) const;
  Tensor run(Context& ctx, const StackInput& input, StackTrace* trace = nullptr) const;  // the stack and what is behind it
  std::int64_t max_length() const;  // tokens of a sequence; a very large number where positions have no end
  void visit(auto&& f) { f("embedding", embedding), f("positions", positions), f("norm", norm), f("stack", stack); }
};

struct EncoderDecoderConfig {
  EmbeddedStackConfig encoder = {}, decoder = {};  // decoder.vocabulary 0: one table for both sides
  std::int64_t output_vocabulary = 0;              // > 0: a projection of its own onto so many tokens; 0: the target's table
  bool output_bias = false;                        // of that projection
  bool logits_bias = false;                        // one that is not trained, but saved (BART's and Marian's final_logits_bias)
  bool zero_padding = false;  // the decoder begins with padding, whose row of the table is zero: `loss` of a batch leaves it so (Marian)
  float output_scale = 1.0F;  // of what is projected (T5: 1/√d_model)
  std::int64_t ignored_label = -100;  // labels of this value count for nothing
  float label_smoothing = 0.0F;
};

// A batch of pairs, packed. `target` begins with the start token and `labels` ends with the end token.
struct PairBatch {
  Tensor source_ids = {};  // [source tokens]
  Sequences source = {};
  Tensor target_ids = {};  // [target tokens], the decoder's input
  Sequences target = {};
  Tensor labels = {};       // [target tokens], what it must predict
  Tensor source_bias = {};  // mask or bias on the source, may be undefined: with packed batches none is needed
  Tensor target_bias = {};
};

// What the decoder is given; see StackInput for what each does.
struct DecoderInput {
  Tensor ids = {};  // [target tokens]
  Sequences sequences = {};
  Tensor bias = {};
  Tensor memory = {};  // the encoder's output [source tokens, d]
  Sequences memory_sequences = {};
  std::optional<Sequences> memory_readers = {};
  Tensor memory_bias = {};
  KVCache* cache = nullptr;
};

struct TransformerTrace {
  StackTrace encoder, decoder;
};

struct EncoderDecoder {
  EncoderDecoderConfig settings;
  EmbeddedStack encoder, decoder;
  std::optional<Linear> output;  // absent: the (shared) target embedding
  Parameter logits_bias;         // [vocabulary]

  explicit EncoderDecoder(const EncoderDecoderConfig& config);

  Tensor encode(Context& ctx, const PairBatch& batch, StackTrace* trace = nullptr) const;                        // [source tokens, d]
  Tensor decode(Context& ctx, const PairBatch& batch, const Tensor& memory, StackTrace* trace = nullptr) const;  // [target tokens, d]
  Tensor decode(Context& ctx, const DecoderInput& input, StackTrace* trace = nullptr) const;
  Tensor logits(Context& ctx, const Tensor& hidden) const;                                           // [target tokens, vocabulary]
  Tensor operator()(Context& ctx, const PairBatch& batch, TransformerTrace* trace = nullptr) const;  // logits
  // Mean cross-entropy over the labels that are not ignored; the logits are never held whole.
  Tensor loss(Context& ctx, const PairBatch& batch) const { return loss(ctx, batch, settings.label_smoothing); }
  Tensor loss(Context& ctx, const PairBatch& batch, float label_smoothing) const;
  Tensor loss(Context& ctx, const Tensor& hidden, const Tensor& labels, float label_smoothing) const;  // of the decoder's output

  std::int64_t source_vocabulary() const { return encoder.embedding->weight.shape[0]; }
  std::int64_t target_vocabulary() const { return output_weight().shape[0]; }  // of the logits
  void visit(auto&& f) { f("encoder", encoder), f("decoder", decoder), f("output", output), f("logits_bias", logits_bias); }

 private:
  const TokenEmbedding& target_embedding() const { return decoder.embedding ? *decoder.embedding : *encoder.embedding; }
  const Parameter& output_weight() const { return output ? output->weight : target_embedding().weight; }
  const Parameter& output_bias() const { return output && output->bias.present() ? output->bias : logits_bias; }
  Tensor scaled(Context& ctx, const Tensor& hidden) const;  // as it is projected
};

}  // namespace transformer
