#include "transformer/generate/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "generate/top_k.h"
#include "transformer/core/error.h"
#include "transformer/core/parallel.h"
#include "transformer/ops/softmax.h"

namespace transformer {
namespace {

constexpr double worst = -std::numeric_limits<double>::infinity();

// A token of a hypothesis; the chain of parents is the hypothesis.
struct Node {
  std::int64_t parent;    // -1: the first token
  std::int64_t attended;  // index of what it was predicted from, -1: not asked for
  std::int32_t token;
  float log_probability;
};

struct Running {
  std::int64_t node;  // -1: nothing but the start token
  double sum;         // of log-probabilities
};

struct Finished {
  std::int64_t node;
  double score;
};

struct Candidate {
  double sum;
  std::size_t row;  // among the running ones of its sentence
  Scored token;
};

// The search of one sentence.
struct Beam {
  std::size_t source;       // in the batch
  std::int64_t max_length;  // tokens before the end token
  std::vector<Running> running;
  std::vector<Finished> finished;  // best first, at most `beam`
};

class BatchSearch {
 public:
  BatchSearch(Context& ctx, const SequenceModel& model, std::span<const std::span<const std::int32_t>> sources,
              const SearchOptions& options)
      : ctx_(ctx), options_(options), special_(model.special()), decoder_(model.start(ctx, sources)),
        min_length_(std::min(options.min_length, model.max_length())) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const double longest = options.max_length_a * static_cast<double>(sources[i].size()) + static_cast<double>(options.max_length_b);
      const auto limit = static_cast<std::int64_t>(std::min(longest, static_cast<double>(model.max_length())));
      beams_.push_back({i, std::max(limit, min_length_), {{-1, 0.0}}, {}});
    }
    // Tokens that are no part of a sentence. Some models begin with their end token.
    for (std::int32_t id : {special_.pad, special_.bos, options.allow_unk ? -1 : special_.unk})
      if (id >= 0 && id != special_.eos) banned_.push_back(id);
  }

  // Calls found(source, n-best) for each sentence when it is done.
  template <class Found>
  void run(Found&& found) {
    std::vector<std::int32_t> tokens(beams_.size(), special_.bos);
    for (std::int64_t step = 0; !beams_.empty(); ++step) {
      score_rows(tokens, step);
      std::vector<std::int64_t> parents;
      std::vector<Beam> going_on;
      tokens.clear();
      std::int64_t row = 0;
      for (Beam& beam : beams_) {
        const auto rows = static_cast<std::int64_t>(beam.running.size());
        if (advance(beam, row, step, tokens, parents)) found(beam.source, best_of(beam));
        else going_on.push_back(std::move(beam));
        row += rows;
      }
      beams_ = std::move(going_on);
      if (!is_identity(parents, row)) decoder_->reorder(ctx_, parents);
    }
  }

 private:
  static bool is_identity(const std::vector<std::int64_t>& parents, std::int64_t rows) {
    for (std::size_t i = 0; i < parents.size(); ++i)
      if (parents[i] != static_cast<std::int64_t>(i)) return false;
    return static_cast<std::int64_t>(parents.size()) == rows;
  }

  std::size_t candidates() const { return static_cast<std::size_t>(options_.beam == 1 ? 1 : 2 * options_.beam); }

  // One step of the model: log_p_ and, for each row, its best tokens.
  void score_rows(const std::vector<std::int32_t>& tokens, std::int64_t step) {
    Attended attended{.layer = options_.alignment_layer};
    log_p_ = log_softmax(ctx_, decoder_->next(ctx_, tokens, options_.alignment ? &attended : nullptr));
    first_attended_ = options_.alignment ? static_cast<std::int64_t>(attended_.size()) : -1;
    std::move(attended.weights.begin(), attended.weights.end(), std::back_inserter(attended_));
    const std::int64_t rows = log_p_.rows(), vocabulary = log_p_.cols();
    float* values = log_p_.mutable_data<float>();
    top_.resize(static_cast<std::size_t>(rows));
    parallel_for(ctx_.threads(), rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        float* row = values + r * vocabulary;
        for (std::int32_t id : banned_) row[id] = -std::numeric_limits<float>::infinity();
        if (step < min_length_) row[special_.eos] = -std::numeric_limits<float>::infinity();
        top_k({row, static_cast<std::size_t>(vocabulary)}, candidates(), top_[static_cast<std::size_t>(r)]);
      }
    });
  }

  // The best continuations of a sentence whose running hypotheses are rows first_row, first_row + 1, …
  std::vector<Candidate> continuations(const Beam& beam, std::int64_t first_row, std::int64_t step) const {
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < beam.running.size(); ++i) {
      const std::int64_t row = first_row + static_cast<std::int64_t>(i);
      auto add = [&](Scored token) { all.push_back({beam.running[i].sum + static_cast<double>(token.value), i, token}); };
      if (step < beam.max_length) {
        for (const Scored& token : top_[static_cast<std::size_t>(row)]) add(token);
      } else if (const float end = log_p_.data<float>()[row * log_p_.cols() + special_.eos]; end > -INFINITY) {
        add({end, special_.eos});
      }
    }
    // Candidates stand by row and, of equal scores, by id: a stable order keeps that.
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });
    if (all.size() > candidates()) all.resize(candidates());
    return all;
  }

  // Extends the hypotheses of a sentence by one token. True when it is done; else its new rows are appended.
  bool advance(Beam& beam, std::int64_t first_row, std::int64_t step, std::vector<std::int32_t>& tokens,
               std::vector<std::int64_t>& parents) {
    const auto width = static_cast<std::size_t>(options_.beam);
    const std::vector<Candidate> all = continuations(beam, first_row, step);
    const double scale = std::pow(static_cast<double>(step + 1), options_.length_penalty);
    const std::vector<Running> before = std::move(beam.running);
    beam.running.clear();
    std::vector<Candidate> kept;
    for (std::size_t i = 0; i < all.size() && kept.size() < width; ++i) {
      const Candidate& c = all[i];
      const bool end = c.token.id == special_.eos;
      if (end && i >= width) continue;
      const std::int64_t attended = first_attended_ < 0 ? -1 : first_attended_ + first_row + static_cast<std::int64_t>(c.row);
      nodes_.push_back({before[c.row].node, attended, c.token.id, c.token.value});
      const auto node = static_cast<std::int64_t>(nodes_.size()) - 1;
      if (end) finish(beam, {node, c.sum / scale});
      else beam.running.push_back({node, c.sum}), kept.push_back(c);
    }
    if (is_done(beam, step + 1)) return true;
    for (const Candidate& c : kept) {
      tokens.push_back(c.token.id);
      parents.push_back(first_row + static_cast<std::int64_t>(c.row));
    }
    return false;
  }

  void finish(Beam& beam, Finished hypothesis) const {
    const auto at = std::upper_bound(beam.finished.begin(), beam.finished.end(), hypothesis,
                                     [](const Finished& a, const Finished& b) { return a.score > b.score; });
    beam.finished.insert(at, hypothesis);
    if (beam.finished.size() > static_cast<std::size_t>(options_.beam)) beam.finished.pop_back();
  }

  bool is_done(const Beam& beam, std::int64_t length) const {
    if (beam.running.empty()) return true;
    if (beam.finished.size() < static_cast<std::size_t>(options_.beam)) return false;
    if (options_.beam == 1 || options_.early_stopping == EarlyStopping::yes) return true;
    double best = worst;
    for (const Running& r : beam.running) best = std::max(best, r.sum);
    // Sums only fall. With a positive penalty the longest sentence divides them by most.
    const bool by_longest = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0.0;
    const double scale = std::pow(static_cast<double>(by_longest ? beam.max_length + 1 : length), options_.length_penalty);
    return beam.finished.back().score >= best / scale;
  }

  std::vector<Hypothesis> best_of(const Beam& beam) const {
    if (beam.finished.empty()) fail("search", "the model gives no token a probability: are its weights finite?");
    std::vector<Hypothesis> best;
    for (const Finished& f : beam.finished) {
      if (best.size() == static_cast<std::size_t>(options_.n_best)) break;
      Hypothesis& h = best.emplace_back();
      h.score = static_cast<float>(f.score);
      for (std::int64_t n = f.node; n >= 0; n = nodes_[static_cast<std::size_t>(n)].parent) {
        const Node& node = nodes_[static_cast<std::size_t>(n)];
        if (n != f.node) h.ids.push_back(node.token);
        h.token_scores.push_back(node.log_probability);
        if (node.attended >= 0) h.alignment.push_back(attended_[static_cast<std::size_t>(node.attended)]);
      }
      std::reverse(h.ids.begin(), h.ids.end());
      std::reverse(h.token_scores.begin(), h.token_scores.end());
      std::reverse(h.alignment.begin(), h.alignment.end());
    }
    return best;
  }

  Context& ctx_;
  const SearchOptions& options_;
  SpecialTokens special_;
  std::unique_ptr<StepDecoder> decoder_;
  std::int64_t min_length_;
  std::vector<std::int32_t> banned_;
  std::vector<Beam> beams_;
  std::vector<Node> nodes_;
  std::vector<std::vector<float>> attended_;
  std::int64_t first_attended_ = -1;  // of this step's rows
  Tensor log_p_;                      // [rows, vocabulary]
  std::vector<std::vector<Scored>> top_;
};

void check(const SearchOptions& o) {
  auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) fail("search", "{} is {}: expected {} or more", name, value, least);
  };
  at_least("beam", o.beam, 1);
  at_least("n_best", o.n_best, 1);
  at_least("min_length", o.min_length, 0);
  at_least("max_length_b", o.max_length_b, 0);
  at_least("batch_tokens", o.batch_tokens, 1);
  if (o.n_best > o.beam) fail("search", "the {} best of a beam of {} were asked for: raise beam to {}", o.n_best, o.beam, o.n_best);
  if (!(o.max_length_a >= 0.0) || !std::isfinite(o.max_length_a)) fail("search", "max_length_a is {}: expected 0 or more", o.max_length_a);
  if (!std::isfinite(o.length_penalty)) fail("search", "length_penalty is {}: expected a finite number", o.length_penalty);
}

// Sources of similar length, the longest first: their indices. A short one costs as much as one of 16 tokens, since its
// logits do.
std::vector<std::vector<std::size_t>> batches(std::span<const std::vector<std::int32_t>> sources, std::int64_t batch_tokens) {
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

// No dropout while alive.
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

}  // namespace

std::vector<std::vector<Hypothesis>> search(Context& ctx, const SequenceModel& model, std::span<const std::vector<std::int32_t>> sources,
                                            const SearchOptions& options) {
  check(options);
  for (const auto& source : sources)
    if (static_cast<std::int64_t>(source.size()) > model.max_source())
      fail("search", "a source of {} tokens was given: the model takes at most {}; shorten it", source.size(), model.max_source());
  const Inference inference(ctx);
  std::vector<std::vector<Hypothesis>> results(sources.size());
  for (const std::vector<std::size_t>& batch : batches(sources, options.batch_tokens)) {
    std::vector<std::span<const std::int32_t>> chosen;
    for (std::size_t i : batch) chosen.emplace_back(sources[i]);
    BatchSearch(ctx, model, chosen, options).run([&](std::size_t i, std::vector<Hypothesis> best) { results[batch[i]] = std::move(best); });
  }
  return results;
}

}  // namespace transformer
