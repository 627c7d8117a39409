#pragma once
// A model as the searches see it: it reads a batch of sources once, then gives the logits of the next token, step by step.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transformer/models/transformer.h"
#include "transformer/text/tokenizer.h"

namespace transformer {

// What the next token was predicted from, on request: for each row its weights over the tokens of its source (the end token
// included), averaged over the heads of one layer.
struct Attended {
  std::int64_t layer = -1;  // from 0; negative: from the last one, -1
  std::vector<std::vector<float>> weights = {};
};

// One batch under way. It holds rows: the unfinished beginnings of target sentences, first one for each source.
class StepDecoder {
 public:
  virtual ~StepDecoder() = default;
  // Appends one token to each row, in the beginning the start token; gives the logits of the one after it, float32
  // [rows, vocabulary].
  virtual Tensor next(Context& ctx, std::span<const std::int32_t> tokens, Attended* attended = nullptr) = 0;
  // Row i goes on from what row parents[i] is now. Rows of one source must stay next to each other; those of finished
  // sentences are left out, and are never computed again.
  virtual void reorder(Context& ctx, std::span<const std::int64_t> parents) = 0;
};

class SequenceModel {
 public:
  virtual ~SequenceModel() = default;
  virtual std::unique_ptr<StepDecoder> start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const = 0;
  virtual SpecialTokens special() const = 0;    // of the target
  virtual std::int64_t max_length() const = 0;  // of a target: tokens it may have before the end token
  virtual std::int64_t max_source() const = 0;  // tokens a source may have
};

// The encoder-decoder as a SequenceModel. Sources are given without special tokens; the end token is added as in training.
class TranslationModel final : public SequenceModel {
 public:
  // The model must outlive this object.
  TranslationModel(const Transformer& model, std::int32_t source_eos, SpecialTokens target);
  std::unique_ptr<StepDecoder> start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const override;
  SpecialTokens special() const override { return target_; }
  std::int64_t max_length() const override { return model_.config.max_len - 1; }
  std::int64_t max_source() const override { return model_.config.max_len - 1; }

 private:
  const Transformer& model_;
  std::int32_t source_eos_;
  SpecialTokens target_;
};

}  // namespace transformer
