#pragma once
// The Transformer of "Attention Is All You Need": an encoder that reads the source and a decoder that writes the
// target, and the encoder on its own.
//
//   Context ctx;
//   Transformer model({.d_model = 512, .num_heads = 8, .src_vocab_size = 32000});
//   initialize(ctx, model);
//   Tensor loss = model.loss(ctx, batch);
//   backward(ctx, loss);

#include "transformer/models/encoder_decoder.h"

namespace transformer {

// The sizes and options of the model; the names are those of config.json.
struct TransformerConfig {
  std::int64_t d_model = 512;
  std::int64_t num_heads = 8;
  std::int64_t num_kv_heads = 0;  // 0: num_heads
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;           // of the encoder, and
  std::int64_t num_decoder_layers = -1;  // of the decoder; -1: as many
  std::int64_t src_vocab_size = 32000;   // 0: no token embedding, the encoder is given vectors
  std::int64_t tgt_vocab_size = 0;       // 0: one vocabulary and one embedding for both sides
  bool tie_output = false;               // the output projection is the target embedding; always so when shared
  std::int64_t max_len = 5000;
  NormPlace norm = NormPlace::post;
  NormKind norm_kind = NormKind::layer_norm;
  float norm_eps = 1e-5F;
  FeedForwardKind activation = FeedForwardKind::relu;
  PositionKind positions = PositionKind::sinusoidal;
  bool scale_embedding = true;  // embeddings times √d_model
  std::int64_t pad_id = 0;      // ignored as a target
  float dropout = 0.1F;         // embeddings and sublayers
  float attention_dropout = 0.1F;
  float ffn_dropout = 0.1F;
  float label_smoothing = 0.1F;

  static void visit(auto& self, auto&& field) {
    field("d_model", self.d_model, "width of the model");
    field("num_heads", self.num_heads, "attention heads; must divide d_model");
    field("num_kv_heads", self.num_kv_heads, "key/value heads (0: as many as heads)");
    field("d_ff", self.d_ff, "width of the feed-forward layers");
    field("num_layers", self.num_layers, "encoder layers");
    field("num_decoder_layers", self.num_decoder_layers, "decoder layers (-1: as many as the encoder)");
    field("src_vocab_size", self.src_vocab_size, "source vocabulary");
    field("tgt_vocab_size", self.tgt_vocab_size, "target vocabulary (0: shared with the source)");
    field("tie_output", self.tie_output, "use the target embedding as the output projection");
    field("max_len", self.max_len, "longest sequence");
    field("norm", self.norm, "place of the norms");
    field("norm_kind", self.norm_kind, "kind of the norms");
    field("norm_eps", self.norm_eps, "epsilon of the norms");
    field("activation", self.activation, "activation of the feed-forward layers");
    field("positions", self.positions, "kind of positions");
    field("scale_embedding", self.scale_embedding, "multiply embeddings by the square root of d_model");
    field("pad_id", self.pad_id, "padding token, ignored as a target");
    field("dropout", self.dropout, "dropout of embeddings and sublayers");
    field("attention_dropout", self.attention_dropout, "dropout of attention weights");
    field("ffn_dropout", self.ffn_dropout, "dropout inside the feed-forward layers");
    field("label_smoothing", self.label_smoothing, "label smoothing of the loss");
  }

  // The settings of the one stack for the encoder or the decoder.
  StackConfig stack(bool decoder) const;
  // The same as settings of the body that all encoder-decoders have.
  EmbeddedStackConfig embedded(bool decoder) const;
  EncoderDecoderConfig encoder_decoder() const;
};

// The encoder alone: [tokens, d] or ids [tokens] → [tokens, d].
struct Encoder : EmbeddedStack {
  explicit Encoder(const TransformerConfig& config) : EmbeddedStack(config.embedded(false)) {}
};

struct Transformer : EncoderDecoder {
  TransformerConfig config;
  explicit Transformer(const TransformerConfig& given) : EncoderDecoder(given.encoder_decoder()), config(given) {}
};

}  // namespace transformer
