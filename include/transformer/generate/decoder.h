#pragma once
// A model as the searches see it: it reads a batch of sources once, then gives the logits of the next token, step by step.
// Where there is an encoder, it reads the source and the decoder begins with a start token; without one the decoder begins with
// the source itself.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/models/transformer.h"
#include "transformer/tokenizers/tokenizer.h"

namespace transformer {

// What the next token was predicted from, on request: for each row its weights over the tokens of its source (the end token
// included), averaged over the heads of one layer.
struct Attended {
  std::int64_t layer = -1;  // from 0; negative: from the last one, -1
  std::vector<std::vector<float>> weights = {};
};

// One batch under way. It holds rows: the unfinished beginnings of sequences, first one for each source.
class StepDecoder {
 public:
  virtual ~StepDecoder() = default;
  // Appends tokens to rows: sequences.length(r) of them to row r, packed; in the beginning its prompt, at once or in parts. Gives the
  // logits of the token after the last of each row that was given any, [rows, vocabulary]; they are the caller's to change.
  virtual Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended* attended = nullptr) = 0;
  // Row i goes on from what row parents[i] is now. Rows of one source must stay next to each other; those of finished
  // sequences are left out, and are never computed again.
  virtual void reorder(Context& ctx, std::span<const std::int64_t> parents) = 0;

  // One token for each row, as work that is recorded once and then run for step after step (Backend::record): prepare() writes the step
  // where repeat() finds it, which gives its logits. The number stays the same while what repeat() asks of the device does; 0: this step
  // is one for next().
  virtual std::uint64_t prepare(Context& ctx, std::span<const std::int32_t> tokens);
  virtual Tensor repeat(Context& ctx);

  // For batches that others join while they are under way: a row for each new source, behind the others.
  virtual void add(Context& ctx, std::span<const std::span<const std::int32_t>> sources);
  // The row becomes the first `length` tokens of row `like`, which may be itself: a common beginning is read once.
  virtual void share(std::int64_t row, std::int64_t like, std::int64_t length);
};

class SequenceModel {
 public:
  virtual ~SequenceModel() = default;
  // Reads the sources, as far as an encoder does. The first next() is given prompt() of each.
  virtual std::unique_ptr<StepDecoder> start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const = 0;
  virtual SpecialTokens special() const = 0;  // of what is generated
  // What a row begins with: the start token, or the source where there is no encoder.
  virtual std::vector<std::int32_t> prompt(std::span<const std::int32_t> source) const {
    static_cast<void>(source);
    return {special().bos};
  }
  virtual bool prompt_is_source() const { return false; }  // there is no encoder
  virtual std::int64_t max_tokens() const = 0;             // that a row may be given, its prompt counted
  virtual std::int64_t max_source() const = 0;             // that a source may have
};

// An encoder-decoder of any family as a SequenceModel.
class EncoderDecoderView final : public SequenceModel {
 public:
  // The model must outlive this object. source_eos: the end token that is added to every source; -1: sources are given as the
  // model reads them. target: what the decoder begins with is `bos`. vocabulary: tokens with this id or a larger one are not
  // generated, where a model has more than its tokenizer; 0: all are. language: a token behind the start token; -1: none.
  EncoderDecoderView(const EncoderDecoder& model, std::int32_t source_eos, SpecialTokens target, std::int64_t vocabulary = 0,
                     std::int32_t language = -1);
  std::unique_ptr<StepDecoder> start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const override;
  SpecialTokens special() const override { return target_; }
  std::vector<std::int32_t> prompt(std::span<const std::int32_t> source) const override;
  std::int64_t max_tokens() const override { return model_.decoder.max_length(); }
  std::int64_t max_source() const override { return model_.encoder.max_length() - (source_eos_ >= 0 ? 1 : 0); }

 private:
  const EncoderDecoder& model_;
  std::int32_t source_eos_;
  SpecialTokens target_;
  std::int64_t vocabulary_;
  std::int32_t language_;
};

}  // namespace transformer
