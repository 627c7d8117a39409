#include "transformer/generate/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "generate/shared/loop.h"
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

// At its longest a sentence can only end; what that costs counts.
LogitsProcessor end_at_longest(std::int32_t eos) {
  return [eos](const LogitsRow& row, std::span<float> log_p) {
    if (row.length() + 1 < row.max_length) return;
    for (std::size_t i = 0; i < log_p.size(); ++i)
      if (i != static_cast<std::size_t>(eos)) log_p[i] = -std::numeric_limits<float>::infinity();
  };
}

Hypothesis hypothesis_of(Found found) {
  found.ids.pop_back();  // the end token
  return {std::move(found.ids), static_cast<float>(found.score), std::move(found.token_scores), std::move(found.alignment)};
}

}  // namespace

std::vector<std::vector<Hypothesis>> search(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> sources,
                                            const GenerationConfig& config, const SearchOptions& options) {
  check(config, options);
  for (const auto& source : sources)
    if (static_cast<std::int64_t>(source.size()) > model.max_source())
      fail("search", "a source of {} tokens was given: the model takes at most {}; shorten it", source.size(), model.max_source());
  const SpecialTokens special = model.special();
  // Tokens that are not part of a sentence. Some models begin with their end token.
  std::vector<std::int32_t> banned;
  for (std::int32_t id : {special.pad, special.bos, options.allow_unk ? -1 : special.unk})
    if (id >= 0 && id != special.eos) banned.push_back(id);
  const std::int64_t least = std::max(config.min_new_tokens.value_or(0), config.min_length - 1);  // min_length counts the start token
  auto min_of = [&](std::int64_t prompt) { return std::min(least, model.max_tokens() - prompt); };
  GenerationConfig changes = config;  // of the logits; what is about lengths and ends is below
  changes.eos_token_id = {special.eos};
  changes.min_length = 0, changes.min_new_tokens.reset(), changes.forced_eos_token_id.clear();
  std::vector<LogitsProcessor> processors = logits_processors(changes);
  for (LogitsProcessor& p : std::array{suppress_tokens(banned), min_new_tokens(min_of(1), {special.eos}), end_at_longest(special.eos)})
    processors.push_back(std::move(p));
  const LoopOptions loop{.beam = config.num_beams,
                         .count = config.num_return_sequences,
                         .length_penalty = config.length_penalty,
                         .early_stopping = config.early_stopping,
                         .eos = {special.eos},
                         .processors = std::move(processors),
                         .log_probabilities = true,
                         .alignment = options.alignment,
                         .alignment_layer = options.alignment_layer};
  const Inference inference(ctx);
  std::vector<std::vector<Hypothesis>> results(sources.size());
  for (const std::vector<std::size_t>& batch : batches_by_length(sources, options.batch_tokens)) {
    std::vector<LoopSource> chosen;
    for (std::size_t i : batch) {
      LoopSource& s = chosen.emplace_back();
      s.ids = sources[i];
      s.prompt = model.prompt(s.ids);
      const auto prompt = static_cast<std::int64_t>(s.prompt.size());
      const double longest = config.max_new_tokens ? static_cast<double>(*config.max_new_tokens)
          : config.max_length                      ? static_cast<double>(*config.max_length - prompt)
                              : options.max_length_a * static_cast<double>(s.ids.size()) + static_cast<double>(options.max_length_b);
      const auto limit = static_cast<std::int64_t>(std::clamp(longest, 0.0, static_cast<double>(model.max_tokens() - prompt)));
      s.max_length = prompt + std::max(limit, min_of(prompt)) + 1;  // and the end token
    }
    generation_loop(ctx, model, std::move(chosen), loop, [&](std::size_t i, std::vector<Found> found) {
      for (Found& f : found) results[batch[i]].push_back(hypothesis_of(std::move(f)));
    });
  }
  return results;
}

}  // namespace transformer
