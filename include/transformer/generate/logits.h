#pragma once
// What changes the logits of the next token before one is chosen. A processor is a function of one row; several are applied
// one after the other. Each has the meaning of Hugging Face's class of that name.
//
//   std::vector<LogitsProcessor> list = logits_processors(config);             // what generation_config.json asks for
//   list.push_back([](const LogitsRow&, std::span<float> logits) { … });       // and one of your own

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>

#include "transformer/generate/generation_config.h"

namespace transformer {

// The sequence that the logits go on.
struct LogitsRow {
  std::span<const std::int32_t> ids = {};     // prompt (or start token) and what was generated
  std::int64_t prompt = 0;                    // how many of them are the prompt
  std::span<const std::int32_t> source = {};  // what the encoder read; without an encoder the prompt
  std::int64_t max_length = 0;                // ids there will be at most

  std::int64_t length() const { return static_cast<std::int64_t>(ids.size()); }
};

// Some of a row's logits, in the order of their ids. What is set to -inf is gone.
struct SomeLogits {
  std::span<const std::int32_t> ids = {};
  std::span<float> values = {};
  std::int64_t vocabulary = 0;  // logits that the row has
  bool all = false;             // the others are -inf
};

// A function of a row, called from several threads at once for different rows. Where logits are on a device that the host cannot
// reach, they come to it as a whole, unless the processors of a search know that the best of them suffice.
class LogitsProcessor {
 public:
  using Whole = std::function<void(const LogitsRow& row, std::span<float> logits)>;
  static constexpr std::int64_t every = std::numeric_limits<std::int64_t>::max();  // logit, whatever their ids
  static constexpr std::int64_t whole = -1;                                        // the row as it is

  struct OfBest {
    // How many of the row's best logits must be known so that the best `after` of the changed ones are; or every, or whole.
    std::function<std::int64_t(const LogitsRow& row, std::int64_t after)> needed;
    // The same as for a whole row. False: it turns out that these do not suffice.
    std::function<bool(const LogitsRow& row, SomeLogits& best)> change;
  };

  template <class F>
  requires std::is_invocable_v<const F&, const LogitsRow&, std::span<float>> LogitsProcessor(F change)
      : whole_(std::move(change)) {}  // NOLINT: any such function is one
  LogitsProcessor(Whole change, OfBest of_best) : whole_(std::move(change)), best_(std::move(of_best)) {}

  void operator()(const LogitsRow& row, std::span<float> logits) const { whole_(row, logits); }
  std::int64_t needed(const LogitsRow& row, std::int64_t after) const { return best_.needed ? best_.needed(row, after) : whole; }
  bool change(const LogitsRow& row, SomeLogits& best) const { return best_.change(row, best); }

 private:
  Whole whole_;
  OfBest best_;
};

// --- for every kind of search ---------------------------------------------------------------------------------------------
LogitsProcessor sequence_bias(std::vector<SequenceBias> biases);
LogitsProcessor encoder_repetition_penalty(double penalty);
LogitsProcessor repetition_penalty(double penalty);
LogitsProcessor no_repeat_ngram(std::int64_t size);
LogitsProcessor encoder_no_repeat_ngram(std::int64_t size);
// An end token alone is never bad.
LogitsProcessor no_bad_words(const std::vector<std::vector<std::int32_t>>& words, const std::vector<std::int32_t>& eos);
LogitsProcessor min_length(std::int64_t length, std::vector<std::int32_t> eos);
LogitsProcessor min_new_tokens(std::int64_t count, std::vector<std::int32_t> eos);
LogitsProcessor forced_bos(std::int32_t id);
LogitsProcessor forced_eos(std::vector<std::int32_t> ids);  // their logits become 0
LogitsProcessor end_at_longest(std::int32_t eos);           // at its longest a sequence can only end; what that costs counts
LogitsProcessor remove_invalid_values();
LogitsProcessor exponential_decay_length_penalty(std::int64_t start, double factor, std::vector<std::int32_t> eos);
LogitsProcessor suppress_tokens(std::vector<std::int32_t> ids);
// `forced_first`: the first token of a start token alone is forced; these are kept from the second.
LogitsProcessor begin_suppress_tokens(std::vector<std::int32_t> ids, bool forced_first);
LogitsProcessor renormalize_logits();

// --- for drawing ----------------------------------------------------------------------------------------------------------
LogitsProcessor temperature(double value);
LogitsProcessor top_k_only(std::int64_t k);  // and what is equal to the k-th
LogitsProcessor top_p(double p);
LogitsProcessor min_p(double p);
LogitsProcessor typical_p(double mass);
LogitsProcessor epsilon_cutoff(double epsilon);
LogitsProcessor eta_cutoff(double epsilon);

// All that the configuration asks for, in Hugging Face's order. Those for drawing only with do_sample.
// `own` stand where Hugging Face has them: behind all but temperature, top_k and the others that narrow a draw, which would else leave
// nothing of what they want.
std::vector<LogitsProcessor> logits_processors(const GenerationConfig& config, std::span<const LogitsProcessor> own = {});
// Of log-probabilities, do these make none greater than 0?
bool scores_only_fall(const GenerationConfig& config);

}  // namespace transformer
