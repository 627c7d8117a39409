#pragma once
// A decoder-only language model as the searches see it: GPT-2, LLaMA, Mistral, Qwen2, Falcon. A sequence begins with its prompt,
// which is read at once; prompts of a batch may have different lengths.
//
//   auto model = load_model(ctx, "gpt2");
//   CausalView view(dynamic_cast<const TextModel&>(*model));
//   std::vector<std::vector<std::int32_t>> prompts{{15496, 11}};
//   auto found = generate(ctx, view, prompts, {.max_new_tokens = 20});

#include "transformer/generate/decoder.h"
#include "transformer/models/text.h"

namespace transformer {

class CausalView final : public SequenceModel {
 public:
  // The model must outlive this object; Error when it has no causal language model head. vocabulary: tokens with this id or a
  // larger one are not generated, where a model has more than its tokenizer; 0: all are. slide: a text may become longer than a
  // learned table of positions; whenever the table is full the older half of the text is forgotten and the rest read again. Of a
  // prompt that is longer than the table its end is read.
  explicit CausalView(const TextModel& model, SpecialTokens special = {}, std::int64_t vocabulary = 0, bool slide = false);

  std::unique_ptr<StepDecoder> start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const override;
  SpecialTokens special() const override { return special_; }
  std::vector<std::int32_t> prompt(std::span<const std::int32_t> source) const override { return {source.begin(), source.end()}; }
  bool prompt_is_source() const override { return true; }
  // The rows of a learned table of positions; rotary positions, ALiBi and models that slide have no end.
  std::int64_t max_tokens() const override;
  std::int64_t max_source() const override { return max_tokens(); }

 private:
  std::int64_t places() const;  // that the model has positions for

  const TextModel& model_;
  SpecialTokens special_;
  std::int64_t vocabulary_;
  bool slide_;
};

}  // namespace transformer
