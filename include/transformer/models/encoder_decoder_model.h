#pragma once
// A checkpoint of an encoder-decoder family: T5, BART, Marian, Pegasus, mBART, M2M100, and the original Transformer.
//
//   auto model = load_model(ctx, "opus-mt-ko-en");
//   if (auto* seq2seq = dynamic_cast<EncoderDecoderModel*>(model.get())) use(seq2seq->network);

#include "transformer/models/encoder_decoder.h"
#include "transformer/models/model.h"

namespace transformer {

// What a family says about itself beside the body.
struct EncoderDecoderOptions {
  std::vector<NameRule> names = {};     // of all but the output projection,
  std::string output_name = "lm_head";  // which is a second name of the target's table when it is tied
  LoadRules load = {};
  std::optional<std::int64_t> start = {};  // what the decoder begins with: labels moved by one place make its input
  std::optional<std::int64_t> pad = {};    // what stands there for labels that are ignored
  bool base = false;                       // the body alone: gives last_hidden_state instead of logits
  bool source_as_target = false;           // without labels and decoder_input_ids, the source moved by one place (BART)
  bool output_as_in_file = false;          // tied or not: whatever the file has, since config.json does not tell (T5)
  // Of a model with a table for each side: both, in older files that have no others. In newer ones nobody uses it.
  std::string shared_table = {};
  bool wraps_labels = false;     // the decoder begins with the last of its labels that is not padding, not with `start` (mBART)
  bool saves_positions = false;  // sinusoids are in its files; where they are not, they are computed (Pegasus)
};

class EncoderDecoderModel : public Model {
 public:
  EncoderDecoder network;

  EncoderDecoderModel(const EncoderDecoderConfig& config, EncoderDecoderOptions options);

  Purpose purpose() const override { return options_.base ? Purpose::text_vectors : Purpose::another_text; }
  // Inputs: input_ids, attention_mask, decoder_input_ids, decoder_attention_mask, labels. Outputs: logits,
  // encoder_last_hidden_state, loss; on request encoder_hidden_states.N, decoder_hidden_states.N, encoder_attentions.N,
  // decoder_attentions.N and cross_attentions.N.
  NamedTensors compute(Context& ctx, const NamedTensors& inputs, const RunOptions& options) const override;
  std::vector<NamedParameter> parameters() override { return transformer::parameters(network); }
  std::vector<NamedLinear> linears() override;  // all but the output projection, which the loss uses without its layer
  std::vector<Binding> bindings() override;
  LoadRules load_rules() const override { return options_.load; }
  void adapt(const Checkpoint& files) override;

  // For fresh weights, after initialize: tables of sinusoids that are saved, and the zero of a padding token that decoders begin with.
  void complete_fresh(Context& ctx);

 private:
  // The ids that predict `labels`: the start token, then all but the last label.
  Tensor shifted(Context& ctx, const Tensor& labels) const;

  EncoderDecoderOptions options_;
};

}  // namespace transformer
