#pragma once
// Text that goes on from prompts: greedy search, sampling and beam search as Hugging Face's generate does them.
//
//   GenerationConfig config = load_generation_config(folder);
//   config.do_sample = true, config.temperature = 0.7, config.max_new_tokens = 100;
//   auto found = generate(ctx, model, prompts, config, {.seed = 1});
//   use(found[0][0].ids);

#include <functional>
#include <optional>
#include <string_view>

#include "transformer/generate/decoder.h"
#include "transformer/generate/finish.h"
#include "transformer/generate/logits.h"

namespace transformer {

struct Generated {
  std::vector<std::int32_t> ids = {};       // without the prompt; the end token is there when it ended by one
  FinishReason finish = FinishReason::eos;  //
  std::string text = {};                    // with GenerateOptions::text: what the tokens say, without end token and stop string
  float score = 0.0F;                       // Σ log p / length ^ length_penalty; only beam search, or with scores
  std::vector<float> token_scores = {};     // log p of each token; beam search: after processing, else the model's own
};

struct TokenScore {
  std::int32_t id = 0;
  float score = 0.0F;  // log p
};

// A token as it comes.
struct GeneratedToken {
  std::size_t prompt = 0;    // of this call
  std::size_t sequence = 0;  // of this prompt
  std::int32_t id = 0;
  std::string_view text = {};               // what can be shown now; a beginning of a stop string is held back until it is none
  std::optional<FinishReason> finish = {};  // set on the last token of a sequence
  float score = 0.0F;                       // log p, with GenerateOptions::scores, without a beam
  std::vector<TokenScore> best = {};        // with GenerateOptions::alternatives: what was most probable here, best first
};

// Gives the text that a token adds to its sequence, perhaps none yet where a token is part of a character. It is called once
// more with id -1 when the sequence ends, for what was held back.
using TextStream = std::function<std::string(std::int32_t id)>;

struct GenerateOptions {
  std::uint64_t seed = 0;
  bool scores = false;                           // give token_scores also without a beam
  std::int64_t alternatives = 0;                 // with scores: GeneratedToken::best has so many
  std::int64_t batch_tokens = 16384;             // prompt tokens that are computed together
  std::vector<LogitsProcessor> processors = {};  // where logits_processors puts `own`
  // Gives a new one for each sequence of a prompt of this call; needed for stop strings.
  std::function<TextStream(std::size_t prompt)> text = {};
  // Called for each token as soon as it is chosen (after a beam search: when it is done). True stops the sequence there.
  std::function<bool(const GeneratedToken&)> on_token = {};
};

// num_return_sequences sequences for each prompt. The same seed, prompt and configuration give the same draws, whatever else
// is in the call; sequences of one prompt differ. A sequence ends by an end token, a stop string, or at max_new_tokens,
// max_length or what the model can take. Where the model has an encoder, prompts are what it reads.
std::vector<std::vector<Generated>> generate(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> prompts,
                                             const GenerationConfig& config, const GenerateOptions& options = {});

}  // namespace transformer
