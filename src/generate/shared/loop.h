#pragma once
// The one loop of greedy search, sampling and beam search: a step of the model for all rows, its logits processed row by row,
// the next tokens chosen, finished sequences taken out of the batch. Sources may join and leave between any two steps.

#include <functional>
#include <optional>

#include "core/shared/top_k.h"
#include "transformer/generate/decoder.h"
#include "transformer/generate/finish.h"
#include "transformer/generate/logits.h"

namespace transformer {

struct LoopOptions {
  std::int64_t beam = 1;                             // above 1: beam search
  std::int64_t count = 1;                            // sequences wanted of each source: the n best, or so many draws
  double length_penalty = 1.0;                       //
  EarlyStopping early_stopping = EarlyStopping::no;  //
  bool only_falls = false;                           // no processor gives a token a score above 0: a sum never rises
  std::vector<std::int32_t> eos = {};                // tokens that end a sequence
  std::vector<LogitsProcessor> processors = {};      //
  bool log_probabilities = false;                    // what processors are given, instead of logits; always in beam search
  bool scores = false;                               // token_scores also without log_probabilities
  std::int64_t alternatives = 0;                     // with scores: so many of the most probable tokens are told with each
  std::optional<std::uint64_t> seed = {};            // draw tokens; only with beam 1
  bool alignment = false;                            // the same for all sources of a loop
  std::int64_t alignment_layer = -1;                 //
};

// Without a beam: a token when it is chosen, and why its sequence ends with it if it does.
struct LoopToken {
  std::size_t number = 0;  // of the sequence, among those of its source
  std::int32_t id = 0;
  std::optional<FinishReason> finish = {};
  float score = 0.0F;
  std::span<const Scored> best = {};  // LoopOptions::alternatives
};

struct Found {
  std::vector<std::int32_t> ids = {};  // what was generated, with the end token
  FinishReason finish = FinishReason::eos;
  double score = 0.0;  // Σ token_scores / length ^ length_penalty
  std::vector<float> token_scores = {};
  std::vector<std::vector<float>> alignment = {};
};

struct LoopSource {
  std::span<const std::int32_t> ids = {};  // must be there until the source is done
  std::vector<std::int32_t> prompt = {};
  std::int64_t max_length = 0;  // of prompt and what is generated, the end token counted; more than the prompt has
  std::shared_ptr<const LoopOptions> options;
  std::function<bool(const LoopToken&)> on_token = {};  // true ends the sequence there
  // When it is done: the best first, or in the order of their numbers.
  std::function<void(std::vector<Found>)> found;
  // When it cannot go on, as when no token is left, though others can; none: step throws.
  std::function<void(std::exception_ptr)> failed = {};
};

// How much is done at a time where sources come and go.
struct LoopLimits {
  // Prompts are read in parts of so many tokens, and prompts with common parts at their beginning share them; 0: at once, for themselves.
  // With parts, what is computed for a source does not depend on what else is under way, as far as the device's kernels do not.
  std::int64_t part = 0;
  std::int64_t step_tokens = 256;  // with parts: tokens of prompts that a step reads at most, or one part
  std::int64_t kept_tokens = 0;    // with parts: tokens of prompts that are kept for later ones
};

class GenerationLoop {
 public:
  GenerationLoop(Context& ctx, const SequenceModel& model, LoopLimits limits = {});
  ~GenerationLoop();

  std::uint64_t add(LoopSource source);  // joins at the next step; the number that end() takes
  void end(std::uint64_t source);        // nothing more is wanted of it; none of its functions is called again
  bool step();                           // false: there was nothing to do
  void forget();                         // the kept prompts
  std::int64_t rows() const;             // under way
  std::int64_t shared_tokens() const;    // of prompts that did not have to be read, so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Sources of similar length, the longest first: their indices, so that about batch_tokens are computed together. A short one
// costs as much as one of 16 tokens, since its logits do.
std::vector<std::vector<std::size_t>> batches_by_length(std::span<const std::vector<std::int32_t>> sources, std::int64_t batch_tokens);

// No gradients and no dropout while alive.
class Inference {
 public:
  explicit Inference(Context& ctx) : ctx_(ctx), unrecorded_(ctx), before_(ctx.training()) { ctx.set_training(false); }
  ~Inference() { ctx_.set_training(before_); }
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

 private:
  Context& ctx_;
  NoGradients unrecorded_;
  bool before_;
};

}  // namespace transformer
