#include "transformer/generate/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "generate/softmax_row.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

using Ids = std::vector<std::int32_t>;
using Logits = std::span<float>;

// An id may be any number: that of a token the model does not predict is passed over.
void ban(Logits logits, std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) logits[static_cast<std::size_t>(id)] = never;
}

std::size_t index_in(std::int64_t vocabulary, std::int32_t id, const char* key) {
  if (id < 0 || id >= vocabulary) fail("generate", "{} names token {}: the model predicts tokens 0 to {}", key, id, vocabulary - 1);
  return static_cast<std::size_t>(id);
}
std::size_t index_in(Logits logits, std::int32_t id, const char* key) { return index_in(std::ssize(logits), id, key); }

// Each token once, as often as it may occur.
Ids distinct(std::span<const std::int32_t> ids) {
  Ids sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

// A penalty above 1 makes a token less probable, whatever the sign of its logit.
void penalize(Logits logits, std::span<const std::int32_t> ids, float penalty) {
  for (const std::int32_t id : distinct(ids)) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    float& value = logits[static_cast<std::size_t>(id)];
    value = value < 0.0F ? value * penalty : value / penalty;
  }
}

bool ends_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> ending) {
  return ids.size() >= ending.size() && std::equal(ending.begin(), ending.end(), ids.end() - static_cast<std::ptrdiff_t>(ending.size()));
}

// What followed the last size - 1 tokens of ids wherever they stand in `text`.
Ids after_ngram(std::span<const std::int32_t> ids, std::span<const std::int32_t> text, std::int64_t size) {
  const auto n = static_cast<std::size_t>(size);
  Ids found;
  if (ids.size() + 1 < n || text.size() < n) return found;
  const auto suffix = ids.last(n - 1);
  for (std::size_t i = 0; i + n <= text.size(); ++i)
    if (std::equal(suffix.begin(), suffix.end(), text.begin() + static_cast<std::ptrdiff_t>(i))) found.push_back(text[i + n - 1]);
  return found;
}

// Bans the tokens that `banned` gives for a row, and nothing else.
template <class F>
LogitsProcessor banning(F banned) {
  return {[banned](const LogitsRow& row, Logits logits) { ban(logits, banned(row)); },
          {[banned](const LogitsRow& row, std::int64_t after) {
    if (after == LogitsProcessor::every) return after;
    const Ids ids = banned(row);
    return after + std::ssize(ids);
           },
           [banned](const LogitsRow& row, SomeLogits& best) {
    for (const std::int32_t id : banned(row))
      if (const auto at = std::lower_bound(best.ids.begin(), best.ids.end(), id); at != best.ids.end() && *at == id)
        best.values[static_cast<std::size_t>(at - best.ids.begin())] = never;
    return true;
          }}};
}

// Does nothing but where `acts` says so; there it must see the whole row.
template <class When, class F>
LogitsProcessor at_times(When acts, F change) {
  return {[acts, change](const LogitsRow& row, Logits logits) {
    if (acts(row)) change(row, logits);
          },
          {[acts](const LogitsRow& row, std::int64_t after) { return acts(row) ? LogitsProcessor::whole : after; },
           [](const LogitsRow&, SomeLogits&) { return true; }}};
}

}  // namespace

LogitsProcessor sequence_bias(std::vector<SequenceBias> biases) {
  return [biases = std::move(biases)](const LogitsRow& row, Logits logits) {
    for (const auto& [ids, bias] : biases) {
      const std::span<const std::int32_t> all(ids);
      const std::size_t last = index_in(logits, ids.back(), "sequence_bias");
      if (ends_with(row.ids, all.first(all.size() - 1))) logits[last] += static_cast<float>(bias);
    }
  };
}

LogitsProcessor no_bad_words(const std::vector<Ids>& words, const Ids& eos) {
  std::vector<Ids> bad;
  for (const Ids& word : words)
    if (word.size() != 1 || std::find(eos.begin(), eos.end(), word[0]) == eos.end()) bad.push_back(word);
  const LogitsProcessor plain = banning([bad](const LogitsRow& row) {
    Ids ids;
    for (const Ids& word : bad)
      if (ends_with(row.ids, std::span(word).first(word.size() - 1))) ids.push_back(word.back());
    return ids;
  });
  const auto check_ids = [bad](std::int64_t vocabulary) {
    for (const Ids& word : bad) index_in(vocabulary, word.back(), "bad_words_ids");
  };
  return {[check_ids, plain](const LogitsRow& row, Logits logits) {
    check_ids(std::ssize(logits));
    plain(row, logits);
          },
          {[plain](const LogitsRow& row, std::int64_t after) { return plain.needed(row, after); },
           [check_ids, plain](const LogitsRow& row, SomeLogits& best) {
    check_ids(best.vocabulary);
    return plain.change(row, best);
           }}};
}

LogitsProcessor encoder_repetition_penalty(double penalty) {
  return [p = static_cast<float>(1.0 / penalty)](const LogitsRow& row, Logits logits) { penalize(logits, row.source, p); };
}

LogitsProcessor repetition_penalty(double penalty) {
  return [p = static_cast<float>(penalty)](const LogitsRow& row, Logits logits) { penalize(logits, row.ids, p); };
}

LogitsProcessor no_repeat_ngram(std::int64_t size) {
  return banning([size](const LogitsRow& row) { return after_ngram(row.ids, row.ids, size); });
}

LogitsProcessor encoder_no_repeat_ngram(std::int64_t size) {
  return banning([size](const LogitsRow& row) { return after_ngram(row.ids, row.source, size); });
}

LogitsProcessor min_length(std::int64_t length, Ids eos) {
  return banning([length, eos = std::move(eos)](const LogitsRow& row) { return row.length() < length ? eos : Ids(); });
}

LogitsProcessor min_new_tokens(std::int64_t count, Ids eos) {
  return banning([count, eos = std::move(eos)](const LogitsRow& row) { return row.length() - row.prompt < count ? eos : Ids(); });
}

LogitsProcessor forced_bos(std::int32_t id) {
  return at_times([](const LogitsRow& row) { return row.length() == 1; },
                  [id](const LogitsRow&, Logits logits) {
    const std::size_t forced = index_in(logits, id, "forced_bos_token_id");
    std::fill(logits.begin(), logits.end(), never);
    logits[forced] = 0.0F;
  });
}

LogitsProcessor forced_eos(Ids ids) {
  return at_times([](const LogitsRow& row) { return row.length() == row.max_length - 1; },
                  [ids = std::move(ids)](const LogitsRow&, Logits logits) {
    for (const std::int32_t id : ids) index_in(logits, id, "forced_eos_token_id");
    std::fill(logits.begin(), logits.end(), never);
    for (const std::int32_t id : ids) logits[static_cast<std::size_t>(id)] = 0.0F;
  });
}

LogitsProcessor remove_invalid_values() {
  return [](const LogitsRow&, Logits logits) {
    for (float& value : logits) {
      if (std::isnan(value)) value = 0.0F;
      else if (std::isinf(value)) value = std::copysign(std::numeric_limits<float>::max(), value);
    }
  };
}

LogitsProcessor exponential_decay_length_penalty(std::int64_t start, double factor, Ids eos) {
  return at_times([start](const LogitsRow& row) { return row.length() - row.prompt > start; },
                  [start, factor, eos = distinct(eos)](const LogitsRow& row, Logits logits) {
    const double growth = std::pow(factor, static_cast<double>(row.length() - row.prompt - start)) - 1.0;
    for (const std::int32_t id : eos) {
      float& value = logits[index_in(logits, id, "eos_token_id")];
      if (std::isfinite(value)) value += static_cast<float>(std::abs(static_cast<double>(value)) * growth);
    }
  });
}

LogitsProcessor suppress_tokens(Ids ids) {
  return banning([ids = std::move(ids)](const LogitsRow&) { return ids; });
}

LogitsProcessor begin_suppress_tokens(Ids ids, bool forced_first) {
  return banning([ids = std::move(ids), forced_first](const LogitsRow& row) {
    return row.length() == row.prompt + (forced_first && row.prompt <= 1 ? 1 : 0) ? ids : Ids();
  });
}

LogitsProcessor end_at_longest(std::int32_t eos) {
  return at_times([](const LogitsRow& row) { return row.length() + 1 >= row.max_length; },
                  [eos](const LogitsRow&, Logits logits) {
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (i != static_cast<std::size_t>(eos)) logits[i] = never;
  });
}

LogitsProcessor renormalize_logits() {
  return [](const LogitsRow&, Logits logits) {
    const auto shift = static_cast<float>(RowSoftmax(logits).log_sum());
    for (float& value : logits) value -= shift;
  };
}

std::vector<LogitsProcessor> logits_processors(const GenerationConfig& c, std::span<const LogitsProcessor> own) {
  std::vector<LogitsProcessor> list;
  auto add_if = [&](bool wanted, auto&& make) {
    if (wanted) list.push_back(make());
  };
  const Ids& eos = c.eos_token_id;
  add_if(!c.sequence_bias.empty(), [&] { return sequence_bias(c.sequence_bias); });
  add_if(c.encoder_repetition_penalty != 1.0, [&] { return encoder_repetition_penalty(c.encoder_repetition_penalty); });
  add_if(c.repetition_penalty != 1.0, [&] { return repetition_penalty(c.repetition_penalty); });
  add_if(c.no_repeat_ngram_size > 0, [&] { return no_repeat_ngram(c.no_repeat_ngram_size); });
  add_if(c.encoder_no_repeat_ngram_size > 0, [&] { return encoder_no_repeat_ngram(c.encoder_no_repeat_ngram_size); });
  add_if(!c.bad_words_ids.empty(), [&] { return no_bad_words(c.bad_words_ids, eos); });
  // min_new_tokens takes the place of min_length.
  add_if(c.min_length > 0 && !c.min_new_tokens, [&] { return min_length(c.min_length, eos); });
  add_if(c.min_new_tokens.value_or(0) > 0, [&] { return min_new_tokens(*c.min_new_tokens, eos); });
  add_if(c.forced_bos_token_id.has_value(), [&] { return forced_bos(*c.forced_bos_token_id); });
  add_if(!c.forced_eos_token_id.empty(), [&] { return forced_eos(c.forced_eos_token_id); });
  add_if(c.remove_invalid_values, [] { return remove_invalid_values(); });
  add_if(!c.exponential_decay_length_penalty.empty(), [&] {
    return exponential_decay_length_penalty(static_cast<std::int64_t>(c.exponential_decay_length_penalty[0]),
                                            c.exponential_decay_length_penalty[1], eos);
  });
  add_if(!c.suppress_tokens.empty(), [&] { return suppress_tokens(c.suppress_tokens); });
  add_if(!c.begin_suppress_tokens.empty(),
         [&] { return begin_suppress_tokens(c.begin_suppress_tokens, c.forced_bos_token_id.has_value()); });
  list.insert(list.end(), own.begin(), own.end());
  if (c.do_sample) {
    add_if(c.temperature != 1.0 && c.temperature != 0.0, [&] { return temperature(c.temperature); });
    add_if(c.top_k != 0, [&] { return top_k_only(c.top_k); });
    add_if(c.top_p < 1.0, [&] { return top_p(c.top_p); });
    add_if(c.min_p > 0.0, [&] { return min_p(c.min_p); });
    add_if(c.typical_p < 1.0, [&] { return typical_p(c.typical_p); });
    add_if(c.epsilon_cutoff > 0.0 && c.epsilon_cutoff < 1.0, [&] { return epsilon_cutoff(c.epsilon_cutoff); });
    add_if(c.eta_cutoff > 0.0 && c.eta_cutoff < 1.0, [&] { return eta_cutoff(c.eta_cutoff); });
  }
  add_if(c.renormalize_logits, [] { return renormalize_logits(); });
  return list;
}

bool scores_only_fall(const GenerationConfig& c) { return c.sequence_bias.empty() && c.exponential_decay_length_penalty.empty(); }

}  // namespace transformer
