#include "transformer/generate/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generate/shared/loop.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

void check(const SearchOptions& o) {
  auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) wrong_setting("search", name, "is {}: expected {} or more", value, least);
  };
  at_least("beam", o.beam, 1);
  at_least("n_best", o.n_best, 1);
  at_least("min_length", o.min_length, 0);
  at_least("max_length_b", o.max_length_b, 0);
  at_least("batch_tokens", o.batch_tokens, 1);
  if (o.n_best > o.beam)
    wrong_setting("search", "n_best", "is {}, but a beam of {} gives at most that many: raise `beam`", o.n_best, o.beam);
  if (!(o.max_length_a >= 0.0) || !std::isfinite(o.max_length_a))
    wrong_setting("search", "max_length_a", "is {}: expected 0 or more", o.max_length_a);
  if (!std::isfinite(o.length_penalty)) wrong_setting("search", "length_penalty", "is {}: expected a finite number", o.length_penalty);
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
                                            const SearchOptions& options) {
  check(options);
  for (const auto& source : sources)
    if (static_cast<std::int64_t>(source.size()) > model.max_source())
      fail("search", "a source of {} tokens was given: the model takes at most {}; shorten it", source.size(), model.max_source());
  const SpecialTokens special = model.special();
  // Tokens that are not part of a sentence. Some models begin with their end token.
  std::vector<std::int32_t> banned;
  for (std::int32_t id : {special.pad, special.bos, options.allow_unk ? -1 : special.unk})
    if (id >= 0 && id != special.eos) banned.push_back(id);
  auto min_of = [&](std::int64_t prompt) { return std::min(options.min_length, model.max_tokens() - prompt); };
  const LoopOptions loop{.beam = options.beam,
                         .count = options.n_best,
                         .length_penalty = options.length_penalty,
                         .early_stopping = options.early_stopping,
                         .eos = {special.eos},
                         .processors = {suppress_tokens(banned), min_new_tokens(min_of(1), {special.eos}), end_at_longest(special.eos)},
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
      const double longest = options.max_length_a * static_cast<double>(s.ids.size()) + static_cast<double>(options.max_length_b);
      const auto limit = static_cast<std::int64_t>(std::min(longest, static_cast<double>(model.max_tokens() - prompt)));
      s.max_length = prompt + std::max(limit, min_of(prompt)) + 1;  // and the end token
    }
    generation_loop(ctx, model, std::move(chosen), loop, [&](std::size_t i, std::vector<Found> found) {
      for (Found& f : found) results[batch[i]].push_back(hypothesis_of(std::move(f)));
    });
  }
  return results;
}

}  // namespace transformer
