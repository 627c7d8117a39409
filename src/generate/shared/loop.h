#pragma once
// The one loop of greedy search, sampling and beam search: a step of the model for all rows, its logits processed row by row,
// the next tokens chosen, finished sequences taken out of the batch.

#include <functional>
#include <optional>

#include "transformer/generate/decoder.h"
#include "transformer/generate/finish.h"
#include "transformer/generate/logits.h"

namespace transformer {

struct LoopOptions {
  std::int64_t beam = 1;                             // above 1: beam search
  std::int64_t count = 1;                            // sequences wanted of each source: the n best, or so many draws
  double length_penalty = 1.0;                       //
  EarlyStopping early_stopping = EarlyStopping::no;  //
  std::vector<std::int32_t> eos = {};                // tokens that end a sequence
  std::vector<LogitsProcessor> processors = {};      //
  bool log_probabilities = false;                    // what processors are given, instead of logits; always in beam search
  bool scores = false;                               // token_scores also without log_probabilities
  std::optional<std::uint64_t> seed = {};            // draw tokens; only with beam 1
  bool alignment = false;                            //
  std::int64_t alignment_layer = -1;                 //
  // Without a beam: is told every token when it is chosen, and why its sequence ends with it if it does; true ends it there.
  std::function<bool(std::size_t source, std::size_t number, std::int32_t token, std::optional<FinishReason> finish)> on_token = {};
};

struct LoopSource {
  std::span<const std::int32_t> ids = {};
  std::vector<std::int32_t> prompt = {};
  std::int64_t max_length = 0;  // of prompt and what is generated, the end token counted; more than the prompt has
};

struct Found {
  std::vector<std::int32_t> ids = {};  // what was generated, with the end token
  FinishReason finish = FinishReason::eos;
  double score = 0.0;  // Σ token_scores / length ^ length_penalty
  std::vector<float> token_scores = {};
  std::vector<std::vector<float>> alignment = {};
};

// All sources as one batch. Calls found(source, sequences) for each when it is done: the best first, or in the order of their
// numbers.
void generation_loop(Context& ctx, const SequenceModel& model, std::vector<LoopSource> sources, const LoopOptions& options,
                     const std::function<void(std::size_t, std::vector<Found>)>& found);

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
