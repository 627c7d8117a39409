#include "generate/shared/loop.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "generate/source_search.h"
#include "transformer/core/error.h"
#include "transformer/core/parallel.h"
#include "transformer/ops/shape.h"
#include "transformer/ops/softmax.h"
#include "transformer/ops/top_k.h"

namespace transformer {
namespace {

constexpr std::int64_t most_best = 64;            // what top_k gives
constexpr std::int64_t soonest = 4, latest = 64;  // steps that are alike before the next is recorded
constexpr std::int64_t pays = 16;                 // so often must recorded work be run to be worth it

std::vector<Scored> fetch(const TopK& top) {
  const std::vector<std::int32_t> both = top.both.to_vector<std::int32_t>();
  std::vector<Scored> best(both.size() / 2);
  for (std::size_t i = 0; i < best.size(); ++i) best[i] = {std::bit_cast<float>(both[i]), both[best.size() + i]};
  return best;
}

}  // namespace

class GenerationLoop::Impl {
 public:
  Impl(Context& ctx, const SequenceModel& model, LoopLimits limits) : ctx_(ctx), model_(model), limits_(limits) {}

  std::uint64_t add(LoopSource source) {
    waiting_.emplace_back(next_number_++, std::move(source));
    return waiting_.back().number();
  }

  void end(std::uint64_t number) {
    std::erase_if(waiting_, [&](const SourceSearch& s) { return s.number() == number; });
    for (Entry& e : entries_)
      if (e.search && e.search->number() == number) e.search.reset(), e.kept = 0;  // its rows go with the next step
  }

  void forget() {
    for (Entry& e : entries_) e.kept = 0, e.parents = e.own_rows();
    reorder();
  }

  std::int64_t rows() const {
    return std::accumulate(entries_.begin(), entries_.end(), std::int64_t{0},
                           [](std::int64_t sum, const Entry& e) { return sum + (e.search ? e.rows() : 0); });
  }
  std::int64_t shared_tokens() const { return shared_tokens_; }

  bool step() {
    for (Entry& e : entries_) e.parents = e.own_rows();
    reorder();
    take_in();
    if (rows() == 0) return false;
    compute();
    choose();
    extend_beams();
    for (Entry& e : entries_) extend(e);
    limit_kept();
    reorder();
    return true;
  }

 private:
  // A source under way, or the beginning of the prompt of one that was: its rows in the decoder stand side by side.
  struct Entry {
    std::optional<SourceSearch> search = {};
    std::vector<std::int32_t> prompt = {};   // with parts
    std::int64_t read = 0;                   // tokens of the prompt that the decoder has
    std::int64_t part = 0;                   // that it reads in this step
    std::int64_t kept = 0;                   // no search: tokens of the prompt that are kept
    std::uint64_t used = 0;                  // when it was
    std::int64_t row = 0, value = -1;        // its first row of the decoder, and of this step's logits
    std::vector<std::int64_t> parents = {};  // its rows after this step: which rows they go on from
    std::vector<std::size_t> extended = {};  // the same of a beam, counted from its own first row
    std::exception_ptr failure = nullptr;    // why there is none

    std::int64_t rows() const { return search ? std::ssize(search->running()) : kept > 0 ? 1 : 0; }
    std::vector<std::int64_t> own_rows() const {
      std::vector<std::int64_t> own(static_cast<std::size_t>(rows()));
      std::iota(own.begin(), own.end(), row);
      return own;
    }
    bool reading() const { return search && read < std::ssize(prompt); }
    bool chosen() const { return search && value >= 0; }
  };

  void take_in() {
    if (waiting_.empty()) return;
    std::vector<std::span<const std::int32_t>> sources;
    std::int64_t row = decoder_rows_;
    for (SourceSearch& s : waiting_) {
      sources.push_back(s.source().ids);
      Entry& e = entries_.emplace_back();
      e.prompt = s.running().front().ids;
      e.search.emplace(std::move(s));
      e.row = row++;
    }
    waiting_.clear();
    if (decoder_ == nullptr) decoder_ = model_.start(ctx_, sources);
    else decoder_->add(ctx_, sources);
    decoder_rows_ = row;
  }

  // Tokens at the beginning of the prompt, in whole parts, that another entry has or is about to have.
  std::int64_t common(const Entry& e, const Entry& other, std::int64_t others_tokens) const {
    const std::int64_t most = std::min({std::ssize(e.prompt) - 1, std::ssize(other.prompt), others_tokens});  // the last one is read
    const auto differ = std::mismatch(e.prompt.begin(), e.prompt.begin() + std::max<std::int64_t>(most, 0), other.prompt.begin());
    return (differ.first - e.prompt.begin()) / limits_.part * limits_.part;
  }

  // The part of its prompt that an entry reads now. What others have read it takes over, and what another one reads now it waits for.
  std::int64_t part_of(Entry& e, std::int64_t left) {
    const auto whole = std::ssize(e.prompt);
    if (limits_.part == 0) return whole;
    if (!model_.prompt_is_source()) return whole - e.read;
    for (Entry& other : entries_) {
      if (&other == &e || other.rows() == 0) continue;
      if (const std::int64_t tokens = common(e, other, other.read); tokens > e.read) {
        decoder_->share(e.row, other.row, tokens);
        shared_tokens_ += tokens - e.read;
        e.read = tokens;
        other.used = ++clock_;
      }
    }
    for (const Entry& other : entries_)
      if (&other != &e && other.part > 0 && common(e, other, other.read + other.part) > e.read) return 0;
    if (left <= 0) return 0;
    return std::min(whole, (e.read / limits_.part + 1) * limits_.part) - e.read;
  }

  // One step of the model: the next token of each row that is generated, and parts of prompts.
  void compute() {
    std::vector<std::int32_t> tokens;
    std::vector<std::int64_t> lengths;
    std::int64_t left = limits_.step_tokens, values = 0;
    bool logarithms = false, all_logarithms = true, scores = false;
    Attended attended;
    const Attended* wanted = nullptr;
    for (Entry& e : entries_) e.part = 0;
    for (Entry& e : entries_) {
      e.value = -1;
      if (!e.search) {
        lengths.insert(lengths.end(), static_cast<std::size_t>(e.rows()), 0);
        continue;
      }
      const std::vector<SourceSearch::Running>& running = e.search->running();
      if (e.reading()) {
        e.part = part_of(e, left);
        left -= e.part;
        tokens.insert(tokens.end(), e.prompt.begin() + e.read, e.prompt.begin() + e.read + e.part);
        lengths.push_back(e.part);
        if (e.read + e.part == std::ssize(e.prompt)) e.value = values;
        values += e.part > 0 ? 1 : 0;
      } else {
        for (const SourceSearch::Running& r : running) tokens.push_back(r.ids.back());
        lengths.insert(lengths.end(), running.size(), 1);
        e.value = values;
        values += std::ssize(running);
      }
      const LoopOptions& o = e.search->options();
      logarithms |= e.search->logarithms(), all_logarithms &= e.search->logarithms();
      scores |= o.scores;
      if (o.alignment) attended.layer = o.alignment_layer, wanted = &attended;
    }
    log_p_ = {}, best_.clear(), logarithms_ = all_logarithms;
    const bool of_best = !ctx_.backend().host_access() && !scores && (all_logarithms || !logarithms);
    const std::int64_t best = of_best ? best_needed() : 0;
    const bool alike = std::all_of(lengths.begin(), lengths.end(), [](std::int64_t n) { return n == 1; });
    steady_ = alike && std::ssize(lengths) == steady_rows_ ? steady_ + 1 : 0;
    steady_rows_ = std::ssize(lengths);
    if (best > 0 && wanted == nullptr && steady_ >= patience_ && repeated(tokens, best)) return;
    values_ = decoder_->next(ctx_, tokens, Sequences(lengths), wanted != nullptr ? &attended : nullptr);
    attended_ = std::move(attended.weights);
    for (Entry& e : entries_) e.read += e.part;
    if (best > 0) return void(best_ = fetch(top_k(ctx_, values_, best, logarithms_)));
    values_ = cast(ctx_, values_, DType::float32);
    if (all_logarithms) values_ = log_softmax(ctx_, values_);
    else if (logarithms || scores) log_p_ = log_softmax(ctx_, values_).to_host();
    values_ = values_.to_host();
  }

  struct Row {
    const SourceSearch* search;
    std::size_t number;
    std::int64_t value;
  };
  std::vector<Row> chosen_rows() const {
    std::vector<Row> rows;
    for (const Entry& e : entries_)
      if (e.chosen())
        for (std::int64_t i = 0; i < e.rows(); ++i) rows.push_back({&*e.search, static_cast<std::size_t>(i), e.value + i});
    return rows;
  }

  // Where the host cannot reach the logits it asks for so many of the best of each row; of rows for which these do not suffice it gets
  // all. 0: none has use for them.
  std::int64_t best_needed() {
    std::int64_t most = 0;
    const std::vector<Row> rows = chosen_rows();
    needed_.resize(rows.size());
    parallel_for(ctx_.threads(), std::ssize(rows), 16, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        needed_[i] = rows[i].search->needed(rows[i].number);
    });
    for (const std::int64_t needed : needed_)
      if (needed <= most_best) most = std::max(most, needed);
    return most < 1 ? 0 : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));  // few different numbers
  }

  // A step that is like the last ones but for its tokens: what it asks of the device is recorded once.
  bool repeated(std::span<const std::int32_t> tokens, std::int64_t best) {
    if (!ctx_.backend().records() || ctx_.layer_weights() != nullptr) return false;
    const std::uint64_t number = decoder_->prepare(ctx_, tokens);
    if (number == 0) return false;
    if (const Step step{number, best, logarithms_}; !recorded_ || step != recorded_step_) {
      if (recorded_) patience_ = runs_ < pays ? std::min(2 * patience_, latest) : soonest;
      recorded_.reset(), runs_ = 0;
      recorded_ = record(ctx_, [this, step] {
        values_ = decoder_->repeat(ctx_);
        top_ = top_k(ctx_, values_, step.best, step.logarithms);
      });
      recorded_step_ = step;
    }
    recorded_->run(), ++runs_;
    best_ = fetch(top_);
    return true;
  }

  // For each row the tokens it may go on with.
  void choose() {
    std::vector<Row> rows = chosen_rows(), others;
    const std::int64_t vocabulary = values_.cols();
    chosen_.assign(static_cast<std::size_t>(values_.rows()), {});
    failures_.assign(static_cast<std::size_t>(values_.rows()), nullptr);
    const auto each = [&](const std::vector<Row>& list, auto&& f) {
      parallel_for(ctx_.threads(), std::ssize(list), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const Row& r = list[static_cast<std::size_t>(i)];
          try {
            f(r, static_cast<std::size_t>(i));
          } catch (...) {
            failures_[static_cast<std::size_t>(r.value)] = std::current_exception();
          }
        }
      });
    };
    if (!best_.empty()) {
      std::vector<char> sufficed(rows.size(), 1);
      const std::size_t k = best_.size() / static_cast<std::size_t>(values_.rows());
      each(rows, [&](const Row& r, std::size_t i) {
        const auto best = std::span(best_).subspan(static_cast<std::size_t>(r.value) * k, k);
        sufficed[i] = needed_[i] >= 0 && needed_[i] <= std::ssize(best) &&
            r.search->choose_of(r.number, best, vocabulary, chosen_[static_cast<std::size_t>(r.value)]);
      });
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (sufficed[i] == 0) others.push_back(rows[i]);
      rows = std::move(others);
      for (Row& r : rows) whole_row(r);
      return;
    }
    float* values = values_.mutable_data<float>();
    const float* log_p = log_p_.defined() ? log_p_.data<float>() : nullptr;
    each(rows, [&](const Row& r, std::size_t) {
      const std::span<float> row(values + r.value * vocabulary, static_cast<std::size_t>(vocabulary));
      if (log_p != nullptr && r.search->logarithms()) std::copy_n(log_p + r.value * vocabulary, vocabulary, row.begin());
      r.search->choose(r.number, row, chosen_[static_cast<std::size_t>(r.value)]);
    });
  }

  // A row of which all logits must be known.
  void whole_row(const Row& r) {
    Tensor row = cast(ctx_, values_.row_block(r.value, 1), DType::float32);
    if (logarithms_) row = log_softmax(ctx_, row);
    std::vector<float> values = row.to_vector<float>();
    try {
      r.search->choose(r.number, values, chosen_[static_cast<std::size_t>(r.value)]);
    } catch (...) {
      failures_[static_cast<std::size_t>(r.value)] = std::current_exception();
    }
  }

  // The rows that those of an entry go on from.
  std::vector<std::size_t> extended(Entry& e) {
    const auto first = static_cast<std::size_t>(e.value), count = static_cast<std::size_t>(e.rows());
    for (std::size_t i = first; i < first + count; ++i)
      if (failures_[i] != nullptr) std::rethrow_exception(failures_[i]);
    std::vector<std::span<const float>> log_p;
    if (log_p_.defined())
      for (std::size_t i = 0; i < count; ++i)
        log_p.emplace_back(log_p_.data<float>() + static_cast<std::int64_t>(first + i) * log_p_.cols(),
                           static_cast<std::size_t>(log_p_.cols()));
    const std::span<const std::vector<float>> attended = e.search->options().alignment ? std::span(attended_).subspan(first, count)
                                                                                       : std::span<const std::vector<float>>();
    return e.search->extend({std::span(chosen_).subspan(first, count), log_p, attended});
  }

  // Beams know nothing of each other, and tell nobody of their tokens: they are extended side by side.
  void extend_beams() {
    std::vector<Entry*> beams;
    for (Entry& e : entries_)
      if (e.chosen() && e.search->options().beam > 1) beams.push_back(&e), e.parents = e.own_rows();
    parallel_for(ctx_.threads(), std::ssize(beams), 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Entry& e = *beams[static_cast<std::size_t>(i)];
        e.failure = nullptr;
        try {
          e.extended = extended(e);
        } catch (...) {
          e.failure = std::current_exception();
        }
      }
    });
  }

  // The entry's rows after this step. A source that is done says so, and leaves its rows or keeps the beginning of its prompt.
  void extend(Entry& e) {
    const bool beam = e.chosen() && e.search->options().beam > 1;
    if (!beam) e.parents = e.own_rows();  // a beam has been extended
    if (!e.chosen()) return;
    try {
      if (beam && e.failure != nullptr) std::rethrow_exception(std::exchange(e.failure, nullptr));
      std::vector<std::int64_t> parents;
      for (const std::size_t row : beam ? e.extended : extended(e)) parents.push_back(e.row + static_cast<std::int64_t>(row));
      if (!parents.empty()) return void(e.parents = std::move(parents));
    } catch (...) {
      if (!e.search->source().failed) throw;
      const auto failed = e.search->source().failed;
      leave(e);
      return failed(std::current_exception());
    }
    const SourceSearch done = std::move(*e.search);
    leave(e);
    done.source().found(done.results());
  }

  void leave(Entry& e) {
    e.search.reset();
    e.kept = limits_.part > 0 && limits_.kept_tokens > 0 && model_.prompt_is_source() ? e.read / limits_.part * limits_.part : 0;
    e.used = ++clock_;
    e.read = e.kept;
    e.prompt.resize(static_cast<std::size_t>(e.kept));
    e.parents.resize(e.kept > 0 ? 1 : 0);
    // What another entry has is not kept twice.
    for (const Entry& other : entries_)
      if (&other != &e && e.kept > 0 && other.rows() > 0 && other.read >= e.kept && std::ssize(other.prompt) >= e.kept &&
          std::equal(e.prompt.begin(), e.prompt.end(), other.prompt.begin()))
        e.kept = 0, e.parents.clear();
  }

  // The prompts that were used longest ago are forgotten.
  void limit_kept() {
    for (;;) {
      std::int64_t tokens = 0;
      Entry* oldest = nullptr;
      for (Entry& e : entries_) {
        if (e.search || e.kept == 0) continue;
        tokens += e.kept;
        if (oldest == nullptr || e.used < oldest->used) oldest = &e;
      }
      if (tokens <= limits_.kept_tokens) return;
      oldest->kept = 0;
      oldest->parents.clear();
    }
  }

  // The decoder's rows become those that the entries want.
  void reorder() {
    std::vector<std::int64_t> parents;
    for (Entry& e : entries_) {
      if (!e.search && e.kept == 0) e.parents.clear();
      parents.insert(parents.end(), e.parents.begin(), e.parents.end());
    }
    std::erase_if(entries_, [](const Entry& e) { return e.parents.empty(); });
    bool same = std::ssize(parents) == decoder_rows_;
    for (std::size_t i = 0; same && i < parents.size(); ++i) same = parents[i] == static_cast<std::int64_t>(i);
    if (!same && parents.empty()) decoder_.reset();
    else if (!same) decoder_->reorder(ctx_, parents);
    decoder_rows_ = std::ssize(parents);
    std::int64_t row = 0;
    for (Entry& e : entries_) {
      e.row = row;
      row += std::ssize(e.parents);
      if (!e.search && !same) decoder_->share(e.row, e.row, e.kept);
    }
  }

  Context& ctx_;
  const SequenceModel& model_;
  LoopLimits limits_;
  std::unique_ptr<StepDecoder> decoder_;
  std::int64_t decoder_rows_ = 0;
  std::vector<Entry> entries_;  // in the order of the decoder's rows
  std::vector<SourceSearch> waiting_;
  std::uint64_t next_number_ = 1, clock_ = 0;
  std::int64_t shared_tokens_ = 0;
  Tensor values_, log_p_;                     // [rows that read a token, vocabulary]
  std::vector<std::vector<float>> attended_;  // by the same rows
  TopK top_;                                  // of a step that is repeated
  struct Step {
    std::uint64_t number = 0;
    std::int64_t best = 0;
    bool logarithms = false;
    bool operator==(const Step&) const = default;
  };
  std::unique_ptr<Recorded> recorded_;
  Step recorded_step_;
  std::int64_t runs_ = 0, patience_ = soonest;
  std::int64_t steady_ = 0, steady_rows_ = 0;  // steps in a row with one token for each of as many rows
  std::vector<std::int64_t> needed_;           // best logits, by row
  std::vector<Scored> best_;                   // of each row equally many, where the logits are not at hand
  bool logarithms_ = false;                    // which these are
  std::vector<std::vector<Scored>> chosen_;
  std::vector<std::exception_ptr> failures_;
};

GenerationLoop::GenerationLoop(Context& ctx, const SequenceModel& model, LoopLimits limits)
    : impl_(std::make_unique<Impl>(ctx, model, limits)) {}
GenerationLoop::~GenerationLoop() = default;
std::uint64_t GenerationLoop::add(LoopSource source) { return impl_->add(std::move(source)); }
void GenerationLoop::end(std::uint64_t source) { impl_->end(source); }
bool GenerationLoop::step() { return impl_->step(); }
void GenerationLoop::forget() { impl_->forget(); }
std::int64_t GenerationLoop::rows() const { return impl_->rows(); }
std::int64_t GenerationLoop::shared_tokens() const { return impl_->shared_tokens(); }

std::vector<std::vector<std::size_t>> batches_by_length(std::span<const std::vector<std::int32_t>> sources, std::int64_t batch_tokens) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<std::size_t>> out;
  std::int64_t tokens = 0;
  for (std::size_t i : order) {
    const std::int64_t cost = std::max<std::int64_t>(16, static_cast<std::int64_t>(sources[i].size()) + 1);
    if (out.empty() || tokens + cost > batch_tokens) out.emplace_back(), tokens = 0;
    out.back().push_back(i);
    tokens += cost;
  }
  return out;
}

}  // namespace transformer
