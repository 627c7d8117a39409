#include "generate/next_tokens.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transformer/core/parallel.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"

namespace transformer {
namespace {

constexpr std::int64_t most_best = 64;  // what top_k gives
constexpr std::int64_t pays = 16;       // so often must recorded work be run to be worth it

std::vector<Scored> fetch(const TopK& top) {
  const std::vector<std::int32_t> both = top.both.to_vector<std::int32_t>();
  std::vector<Scored> best(both.size() / 2);
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = {std::bit_cast<float>(both[i]), both[best.size() + i]};
  return best;
}

}  // namespace

void NextTokens::step(StepDecoder& decoder, std::span<const std::int32_t> tokens, const std::vector<std::int64_t>& lengths,
                      std::vector<Row> rows) {
  rows_ = std::move(rows);
  compute(decoder, tokens, lengths);
  choose();
}

void NextTokens::compute(StepDecoder& decoder, std::span<const std::int32_t> tokens, const std::vector<std::int64_t>& lengths) {
  bool logarithms = false, scores = false;
  Attended attended;
  const Attended* wanted = nullptr;
  logarithms_ = true;
  for (const Row& r : rows_) {
    const LoopOptions& o = r.search->options();
    logarithms |= r.search->logarithms(), logarithms_ &= r.search->logarithms();
    scores |= o.scores;
    if (o.alignment) attended.layer = o.alignment_layer, wanted = &attended;
  }
  log_p_ = {}, best_.clear();
  const std::int64_t best = !scores && (logarithms_ || !logarithms) ? best_needed() : 0;
  const bool alike = std::all_of(lengths.begin(), lengths.end(), [](std::int64_t n) { return n == 1; });
  steady_ = alike && std::ssize(lengths) == steady_rows_ ? steady_ + 1 : 0;
  steady_rows_ = std::ssize(lengths);
  if (best > 0 && wanted == nullptr && steady_ >= patience_ && repeated(decoder, tokens, best)) return;
  values_ = decoder.next(ctx_, tokens, Sequences(lengths), wanted != nullptr ? &attended : nullptr);
  attended_ = std::move(attended.weights);
  if (best > 0) return void(best_ = fetch(top_k(ctx_, values_, best, logarithms_)));
  values_ = cast(ctx_, values_, DType::float32);
  if (logarithms_) values_ = log_softmax(ctx_, values_);
  else if (logarithms || scores) log_p_ = log_softmax(ctx_, values_).to_host();
  values_ = values_.to_host();
}

// So many of the best of each row are asked for; of rows for which these do not suffice the host gets all. 0: none has use for them, or
// one has not, and all of it is at hand.
std::int64_t NextTokens::best_needed() {
  std::int64_t most = 0;
  needed_.resize(rows_.size());
  parallel_for(ctx_.threads(), std::ssize(rows_), 16, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      needed_[i] = rows_[i].search->needed(rows_[i].number);
  });
  const bool at_hand = ctx_.backend().host_access();
  for (const std::int64_t needed : needed_) {
    if (needed >= 0 && needed <= most_best) most = std::max(most, needed);
    else if (at_hand) return 0;
  }
  if (most == 0 || at_hand) return most;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));  // few different numbers: steps are recorded
}

// A step that is like the last ones but for its tokens: what it asks of the device is recorded once.
bool NextTokens::repeated(StepDecoder& decoder, std::span<const std::int32_t> tokens, std::int64_t best) {
  if (!ctx_.backend().records() || ctx_.layer_weights() != nullptr) return false;
  const std::uint64_t number = decoder.prepare(ctx_, tokens);
  if (number == 0) return false;
  if (const Recipe step{number, best, logarithms_}; !recorded_ || step != recorded_step_) {
    if (recorded_) patience_ = runs_ < pays ? std::min(2 * patience_, latest) : soonest;
    recorded_.reset(), runs_ = 0;
    recorded_ = record(ctx_, [this, step, &decoder] {
      repeated_values_ = decoder.repeat(ctx_);
      top_ = top_k(ctx_, repeated_values_, step.best, step.logarithms);
    });
    recorded_step_ = step;
  }
  recorded_->run(), ++runs_;
  values_ = repeated_values_;  // a step that was not repeated may have been between
  best_ = fetch(top_);
  return true;
}

template <class F>
void NextTokens::each_row(F&& f) {
  parallel_for(ctx_.threads(), std::ssize(rows_), 4, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const auto at = static_cast<std::size_t>(rows_[i].value);
      try {
        f(rows_[i], i, chosen_[at]);
      } catch (...) {
        failures_[at] = std::current_exception();
      }
    }
  });
}

void NextTokens::choose() {
  const std::int64_t vocabulary = values_.cols();
  chosen_.resize(static_cast<std::size_t>(values_.rows()));
  failures_.assign(static_cast<std::size_t>(values_.rows()), nullptr);
  if (!best_.empty()) {
    std::vector<char> sufficed(rows_.size(), 1);
    const std::size_t k = best_.size() / static_cast<std::size_t>(values_.rows());
    each_row([&](const Row& r, std::size_t i, std::vector<Scored>& chosen) {
      const auto best = std::span(best_).subspan(static_cast<std::size_t>(r.value) * k, k);
      sufficed[i] = needed_[i] >= 0 && needed_[i] <= std::ssize(best) && r.search->choose_of(r.number, best, vocabulary, chosen);
    });
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (sufficed[i] == 0) choose_of_whole(rows_[i]);
    return;
  }
  float* values = values_.mutable_data<float>();
  const float* log_p = log_p_.defined() ? log_p_.data<float>() : nullptr;
  each_row([&](const Row& r, std::size_t, std::vector<Scored>& chosen) {
    const std::span<float> row(values + r.value * vocabulary, static_cast<std::size_t>(vocabulary));
    if (log_p != nullptr && r.search->logarithms()) std::copy_n(log_p + r.value * vocabulary, vocabulary, row.begin());
    r.search->choose(r.number, row, chosen);
  });
}

// A row of which all logits must be known.
void NextTokens::choose_of_whole(const Row& r) {
  const auto at = static_cast<std::size_t>(r.value);
  Tensor row = cast(ctx_, values_.row_block(r.value, 1), DType::float32);
  if (logarithms_) row = log_softmax(ctx_, row);
  std::vector<float> values = row.to_vector<float>();
  try {
    r.search->choose(r.number, values, chosen_[at]);
  } catch (...) {
    failures_[at] = std::current_exception();
  }
}

SourceSearch::Step NextTokens::found(std::int64_t first, std::int64_t count) const {
  SourceSearch::Step step;
  const auto begin = static_cast<std::size_t>(first), end = begin + static_cast<std::size_t>(count);
  for (std::size_t i = begin; i < end; ++i) {
    if (failures_[i] != nullptr) std::rethrow_exception(failures_[i]);
    if (log_p_.defined())
      step.log_p.emplace_back(log_p_.data<float>() + static_cast<std::int64_t>(i) * log_p_.cols(), static_cast<std::size_t>(log_p_.cols()));
  }
  step.chosen = std::span(chosen_).subspan(begin, end - begin);
  if (!attended_.empty()) step.attended = std::span(attended_).subspan(begin, end - begin);
  return step;
}

}  // namespace transformer
