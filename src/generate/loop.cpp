#include "generate/shared/loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "generate/softmax_row.h"
#include "generate/top_k.h"
#include "transformer/core/error.h"
#include "transformer/core/parallel.h"
#include "transformer/core/random.h"
#include "transformer/ops/softmax.h"

namespace transformer {
namespace {

// A generated token; the chain of parents is the sequence.
struct Node {
  std::int64_t parent;    // -1: the first token
  std::int64_t attended;  // index of what it was predicted from, -1: not asked for
  std::int32_t token;
  float score;  // log-probability, or 0 where they are not known
};

struct Running {
  std::int64_t node;              // -1: nothing but the prompt
  double sum;                     // of scores
  std::size_t number;             // among the draws of its source
  std::vector<std::int32_t> ids;  // prompt and generated tokens
};

struct Finished {
  std::int64_t node;
  double score;
  std::size_t number;
  FinishReason finish;
};

struct Candidate {
  double sum;
  std::size_t row;  // among the running ones of its source
  std::int32_t token;
  float score;
};

// One source under way.
struct Search {
  std::size_t source;  // in the batch
  std::span<const std::int32_t> source_ids;
  std::int64_t prompt, max_length;
  std::vector<Running> running;
  std::vector<Finished> finished;  // beam search: best first, at most `beam`
};

class Loop {
 public:
  Loop(Context& ctx, const SequenceModel& model, std::vector<LoopSource> sources, const LoopOptions& options)
      : ctx_(ctx), options_(options), logarithms_(options.log_probabilities || options.beam > 1) {
    std::vector<std::span<const std::int32_t>> read;
    for (LoopSource& s : sources) {
      const std::size_t i = searches_.size();
      const auto prompt = static_cast<std::int64_t>(s.prompt.size());
      read.push_back(s.ids);
      searches_.push_back({i, s.ids, prompt, s.max_length, {{-1, 0.0, 0, std::move(s.prompt)}}, {}});
    }
    decoder_ = model.start(ctx, read);
  }

  void run(const std::function<void(std::size_t, std::vector<Found>)>& found) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int64_t> lengths;
    for (const Search& s : searches_) {
      tokens.insert(tokens.end(), s.running[0].ids.begin(), s.running[0].ids.end());
      lengths.push_back(s.prompt);
    }
    Sequences sequences(lengths);
    for (std::int64_t step = 0; !searches_.empty(); ++step) {
      compute(tokens, sequences);
      choose(step);
      std::vector<std::int64_t> parents;
      std::vector<Search> going_on;
      std::int64_t row = 0;
      tokens.clear();
      for (Search& s : searches_) {
        const auto rows = static_cast<std::int64_t>(s.running.size());
        if (options_.beam > 1 ? extend_beam(s, row, step, parents) : extend_each(s, row, step, parents)) {
          found(s.source, results(s));
        } else {
          for (const Running& r : s.running) tokens.push_back(r.ids.back());
          going_on.push_back(std::move(s));
        }
        row += rows;
      }
      searches_ = std::move(going_on);
      if (!is_identity(parents, row)) decoder_->reorder(ctx_, parents);
      sequences = Sequences::uniform(static_cast<std::int64_t>(tokens.size()), 1);
    }
  }

 private:
  static bool is_identity(const std::vector<std::int64_t>& parents, std::int64_t rows) {
    for (std::size_t i = 0; i < parents.size(); ++i)
      if (parents[i] != static_cast<std::int64_t>(i)) return false;
    return static_cast<std::int64_t>(parents.size()) == rows;
  }

  bool is_end(std::int32_t token) const { return std::find(options_.eos.begin(), options_.eos.end(), token) != options_.eos.end(); }

  // Enough that `beam` of them do not end, however many end tokens there are.
  std::size_t candidates() const { return static_cast<std::size_t>(options_.beam) * std::max<std::size_t>(2, 1 + options_.eos.size()); }

  // One step of the model: values_ and, on request, what it attended to.
  void compute(const std::vector<std::int32_t>& tokens, const Sequences& sequences) {
    Attended attended{.layer = options_.alignment_layer};
    values_ = decoder_->next(ctx_, tokens, sequences, options_.alignment ? &attended : nullptr);
    if (logarithms_) values_ = log_softmax(ctx_, values_);
    else if (options_.scores) log_p_ = log_softmax(ctx_, values_).to_host();
    values_ = values_.to_host();
    first_attended_ = options_.alignment ? static_cast<std::int64_t>(attended_.size()) : -1;
    std::move(attended.weights.begin(), attended.weights.end(), std::back_inserter(attended_));
  }

  // For each row the tokens it may go on with: the best ones, or one for each draw.
  void choose(std::int64_t step) {
    struct Row {
      const Search* search;
      const Running* running;
    };
    std::vector<Row> rows;
    for (const Search& s : searches_)
      for (const Running& r : s.running) rows.push_back({&s, &r});
    const std::int64_t vocabulary = values_.cols();
    float* values = values_.mutable_data<float>();
    chosen_.resize(rows.size());
    parallel_for(ctx_.threads(), static_cast<std::int64_t>(rows.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const auto [search, running] = rows[static_cast<std::size_t>(r)];
        const std::span<float> row(values + r * vocabulary, static_cast<std::size_t>(vocabulary));
        const LogitsRow state{running->ids, search->prompt, search->source_ids, search->max_length};
        for (const LogitsProcessor& process : options_.processors) process(state, row);
        std::vector<Scored>& chosen = chosen_[static_cast<std::size_t>(r)];
        if (options_.beam > 1) {
          top_k(row, candidates(), chosen);
        } else if (!options_.seed) {
          top_k(row, 1, chosen);
        } else {
          // In the first step one row stands for all draws.
          chosen.clear();
          const std::size_t draws = step == 0 ? static_cast<std::size_t>(options_.count) : 1;
          for (std::size_t i = 0; i < draws; ++i) {
            const std::int32_t token = draw(row, uniform(step, running->number + i));
            if (token >= 0) chosen.push_back({row[static_cast<std::size_t>(token)], token});
          }
        }
        if (chosen.empty() && options_.beam == 1) nothing_left();
      }
    });
  }

  [[noreturn]] static void nothing_left() {
    fail("generate", "no token is left to go on with: are the model's weights finite, and do the settings exclude all tokens?");
  }

  // A number of [0, 1) that depends on the seed, the place in the sequence and the draw's number alone, not on the batch.
  double uniform(std::int64_t step, std::size_t number) const {
    const RandomStream stream{*options_.seed, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(number)};
    const std::uint64_t bits = (std::uint64_t{stream.bits(0)} << 32U) | stream.bits(16);  // two words of one block
    return static_cast<double>(bits >> 11U) * 0x1p-53;
  }

  float score_of(std::int64_t row, Scored token) const {
    if (logarithms_) return token.value;
    return options_.scores ? log_p_.data<float>()[row * log_p_.cols() + token.id] : 0.0F;
  }

  std::int64_t add_node(const Running& parent, std::int64_t row, std::int32_t token, float score) {
    nodes_.push_back({parent.node, first_attended_ < 0 ? -1 : first_attended_ + row, token, score});
    return static_cast<std::int64_t>(nodes_.size()) - 1;
  }

  double penalized(double sum, std::int64_t length) const { return sum / std::pow(static_cast<double>(length), options_.length_penalty); }

  // Greedy search and sampling: every running sequence goes on by itself. True when none is left.
  bool extend_each(Search& s, std::int64_t first_row, std::int64_t step, std::vector<std::int64_t>& parents) {
    std::vector<Running> before = std::move(s.running);
    s.running.clear();
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::int64_t row = first_row + static_cast<std::int64_t>(i);
      const std::vector<Scored>& chosen = chosen_[static_cast<std::size_t>(row)];
      for (std::size_t d = 0; d < chosen.size(); ++d) {
        Running next = d + 1 < chosen.size() ? before[i] : std::move(before[i]);
        const float score = score_of(row, chosen[d]);
        next.number += d;
        next.sum += static_cast<double>(score);
        next.ids.push_back(chosen[d].id);
        next.node = add_node(next, row, chosen[d].id, score);
        std::optional<FinishReason> finish;
        if (is_end(chosen[d].id)) finish = FinishReason::eos;
        else if (static_cast<std::int64_t>(next.ids.size()) >= s.max_length) finish = FinishReason::length;
        if (options_.on_token && options_.on_token(s.source, next.number, chosen[d].id, finish) && finish != FinishReason::eos)
          finish = FinishReason::stop;
        if (finish) {
          s.finished.push_back({next.node, penalized(next.sum, step + 1), next.number, *finish});
        } else {
          s.running.push_back(std::move(next));
          parents.push_back(row);
        }
      }
    }
    if (!s.running.empty()) return false;
    std::sort(s.finished.begin(), s.finished.end(), [](const Finished& a, const Finished& b) { return a.number < b.number; });
    return true;
  }

  // The best continuations of a source whose running hypotheses are rows first_row, first_row + 1, …
  std::vector<Candidate> continuations(const Search& s, std::int64_t first_row) const {
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < s.running.size(); ++i)
      for (const Scored& token : chosen_[static_cast<std::size_t>(first_row) + i])
        all.push_back({s.running[i].sum + static_cast<double>(token.value), i, token.id, token.value});
    // Candidates stand by row and, of equal scores, by id: a stable order keeps that.
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });
    if (all.size() > candidates()) all.resize(candidates());
    return all;
  }

  // Beam search: the best `beam` continuations of all hypotheses of a source. True when it is done.
  bool extend_beam(Search& s, std::int64_t first_row, std::int64_t step, std::vector<std::int64_t>& parents) {
    const auto width = static_cast<std::size_t>(options_.beam);
    const std::vector<Candidate> all = continuations(s, first_row);
    const std::vector<Running> before = std::move(s.running);
    const bool longest = s.prompt + step + 1 >= s.max_length;
    s.running.clear();
    std::vector<std::int64_t> from;
    for (std::size_t i = 0; i < all.size() && s.running.size() < width; ++i) {
      const Candidate& c = all[i];
      const bool end = is_end(c.token);
      if ((end || longest) && i >= width) continue;
      const Running& parent = before[c.row];
      const std::int64_t row = first_row + static_cast<std::int64_t>(c.row), node = add_node(parent, row, c.token, c.score);
      if (end || longest) {
        finish(s, {node, penalized(c.sum, step + 1), 0, end ? FinishReason::eos : FinishReason::length});
      } else {
        s.running.push_back({node, c.sum, 0, parent.ids});
        s.running.back().ids.push_back(c.token);
        from.push_back(row);
      }
    }
    if (s.running.empty() && s.finished.empty()) nothing_left();
    if (is_done(s, step + 1)) return true;
    parents.insert(parents.end(), from.begin(), from.end());
    return false;
  }

  void finish(Search& s, Finished hypothesis) const {
    const auto at = std::upper_bound(s.finished.begin(), s.finished.end(), hypothesis,
                                     [](const Finished& a, const Finished& b) { return a.score > b.score; });
    s.finished.insert(at, hypothesis);
    if (s.finished.size() > static_cast<std::size_t>(options_.beam)) s.finished.pop_back();
  }

  bool is_done(const Search& s, std::int64_t length) const {
    if (s.running.empty()) return true;
    if (s.finished.size() < static_cast<std::size_t>(options_.beam)) return false;
    if (options_.early_stopping == EarlyStopping::yes) return true;
    const double best = s.running.front().sum;  // they are in order
    // Sums only fall. With a positive penalty the longest sequence divides them by most.
    const bool by_longest = options_.early_stopping == EarlyStopping::never && options_.length_penalty > 0.0;
    return s.finished.back().score >= penalized(best, by_longest ? s.max_length - s.prompt : length);
  }

  std::vector<Found> results(const Search& s) const {
    std::vector<Found> out;
    for (const Finished& f : s.finished) {
      if (out.size() == static_cast<std::size_t>(options_.count)) break;
      Found& found = out.emplace_back();
      found.score = f.score;
      found.finish = f.finish;
      for (std::int64_t n = f.node; n >= 0; n = nodes_[static_cast<std::size_t>(n)].parent) {
        const Node& node = nodes_[static_cast<std::size_t>(n)];
        found.ids.push_back(node.token);
        if (logarithms_ || options_.scores) found.token_scores.push_back(node.score);
        if (node.attended >= 0) found.alignment.push_back(attended_[static_cast<std::size_t>(node.attended)]);
      }
      std::reverse(found.ids.begin(), found.ids.end());
      std::reverse(found.token_scores.begin(), found.token_scores.end());
      std::reverse(found.alignment.begin(), found.alignment.end());
    }
    return out;
  }

  Context& ctx_;
  const LoopOptions& options_;
  bool logarithms_;  // values_ are log-probabilities
  std::unique_ptr<StepDecoder> decoder_;
  std::vector<Search> searches_;
  std::vector<Node> nodes_;
  std::vector<std::vector<float>> attended_;
  std::int64_t first_attended_ = -1;  // of this step's rows
  Tensor values_, log_p_;             // [rows, vocabulary]
  std::vector<std::vector<Scored>> chosen_;
};

}  // namespace

void generation_loop(Context& ctx, const SequenceModel& model, std::vector<LoopSource> sources, const LoopOptions& options,
                     const std::function<void(std::size_t, std::vector<Found>)>& found) {
  Loop(ctx, model, std::move(sources), options).run(found);
}

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
