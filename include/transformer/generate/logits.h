#pragma once
// What changes the logits of the next token before one is chosen. A processor is a function of one row; several are applied
// one after the other. Each has the meaning of Hugging Face's class of that name.
//
//   std::vector<LogitsProcessor> list = logits_processors(config);             // what generation_config.json asks for
//   list.push_back([](const LogitsRow&, std::span<float> logits) { … });       // and one of your own

#include <functional>
#include <span>

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

// Called from several threads at once, for different rows.
using LogitsProcessor = std::function<void(const LogitsRow& row, std::span<float> logits)>;

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
std::vector<LogitsProcessor> logits_processors(const GenerationConfig& config);

}  // namespace transformer
