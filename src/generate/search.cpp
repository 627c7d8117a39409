#include "transformer/generate/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "generate/shared/call.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

void check(const GenerationConfig& config, const SearchOptions& o) {
  check(config);
  if (config.do_sample) wrong_setting("search", "do_sample", "is true, but a search takes the best and draws nothing: use generate");
  if (!config.stop_strings.empty()) wrong_setting("search", "stop_strings", "are given, but whole sentences are searched: use generate");
  if (o.max_length_b < 0) wrong_setting("search", "max_length_b", "is {}: expected 0 or more", o.max_length_b);
  if (o.batch_tokens < 1) wrong_setting("search", "batch_tokens", "is {}: expected 1 or more", o.batch_tokens);
  if (!(o.max_length_a >= 0.0) || !std::isfinite(o.max_length_a))
    wrong_setting("search", "max_length_a", "is {}: expected 0 or more", o.max_length_a);
}

Hypothesis hypothesis_of(Found found) {
  found.ids.pop_back();  // the end token
  return {std::move(found.ids), static_cast<float>(found.score), std::move(found.token_scores), std::move(found.alignment)};
}

}  // namespace

SearchCall::SearchCall(const SequenceModel& model, const GenerationConfig& config, const SearchOptions& options)
    : model_(model), config_(config), options_(options) {
  check(config, options);
  const SpecialTokens special = model.special();
  // Tokens that are not part of a sentence. Some models begin with their end token.
  std::vector<std::int32_t> banned;
  for (std::int32_t id : {special.pad, special.bos, options.allow_unk ? -1 : special.unk})
    if (id >= 0 && id != special.eos) banned.push_back(id);
  GenerationConfig changes = config;  // of the logits; what is about lengths and ends is below
  changes.eos_token_id = {special.eos};
  changes.min_length = 0, changes.min_new_tokens.reset(), changes.forced_eos_token_id.clear();
  std::vector<LogitsProcessor> processors = logits_processors(changes);
  for (LogitsProcessor& p : std::array{suppress_tokens(banned), min_new_tokens(least(1), {special.eos}), end_at_longest(special.eos)})
    processors.push_back(std::move(p));
  loop_ = std::make_shared<const LoopOptions>(LoopOptions{.beam = config.num_beams,
                                                          .count = config.num_return_sequences,
                                                          .length_penalty = config.length_penalty,
                                                          .early_stopping = config.early_stopping,
                                                          .only_falls = scores_only_fall(config),
                                                          .eos = {special.eos},
                                                          .processors = std::move(processors),
                                                          .log_probabilities = true,
                                                          .alignment = options.alignment,
                                                          .alignment_layer = options.alignment_layer});
}

// Tokens that are generated at least; min_length counts the start token.
std::int64_t SearchCall::least(std::int64_t prompt) const {
  return std::min(std::max(config_.min_new_tokens.value_or(0), config_.min_length - 1), model_.max_tokens() - prompt);
}

LoopSource SearchCall::source(std::span<const std::int32_t> ids, Done done) const {
  if (std::ssize(ids) > model_.max_source())
    fail("search", "a source of {} tokens was given: the model takes at most {}; shorten it", ids.size(), model_.max_source());
  LoopSource s{.ids = ids, .prompt = model_.prompt(ids), .options = loop_};
  const std::int64_t prompt = std::ssize(s.prompt);
  const double longest = config_.max_new_tokens ? static_cast<double>(*config_.max_new_tokens)
      : config_.max_length                      ? static_cast<double>(*config_.max_length - prompt)
                           : options_.max_length_a * static_cast<double>(ids.size()) + static_cast<double>(options_.max_length_b);
  const auto limit = static_cast<std::int64_t>(std::clamp(longest, 0.0, static_cast<double>(model_.max_tokens() - prompt)));
  s.max_length = prompt + std::max(limit, least(prompt)) + 1;  // and the end token
  s.found = [done = std::move(done)](std::vector<Found> found) {
    std::vector<Hypothesis> best;
    for (Found& f : found) best.push_back(hypothesis_of(std::move(f)));
    done(std::move(best));
  };
  return s;
}

std::vector<std::vector<Hypothesis>> search(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> sources,
                                            const GenerationConfig& config, const SearchOptions& options) {
  const SearchCall call(model, config, options);
  std::vector<std::vector<Hypothesis>> results(sources.size());
  std::vector<LoopSource> all;
  for (std::size_t i = 0; i < sources.size(); ++i)
    all.push_back(call.source(sources[i], [&results, i](std::vector<Hypothesis> best) { results[i] = std::move(best); }));
  const Inference inference(ctx);
  for (const std::vector<std::size_t>& batch : batches_by_length(sources, options.batch_tokens)) {
    GenerationLoop loop(ctx, model);
    for (std::size_t i : batch) loop.add(std::move(all[i]));
    while (loop.step()) {
    }
  }
  return results;
}

}  // namespace transformer
