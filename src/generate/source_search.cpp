#include "generate/source_search.h"

#include <algorithm>
#include <cmath>

#include "generate/softmax_row.h"
#include "transformer/core/error.h"
#include "transformer/core/random.h"

namespace transformer {
namespace {

[[noreturn]] void nothing_left() {
  fail("generate", "no token is left to go on with: are the model's weights finite, and do the settings exclude all tokens?");
}

}  // namespace

SourceSearch::SourceSearch(std::uint64_t number, LoopSource source)
    : number_(number), source_(std::move(source)), prompt_(std::ssize(source_.prompt)) {
  running_.push_back({-1, 0.0, 0, std::move(source_.prompt)});
}

bool SourceSearch::is_end(std::int32_t token) const {
  return std::find(options().eos.begin(), options().eos.end(), token) != options().eos.end();
}

// Enough that `beam` of them do not end, however many end tokens there are.
std::size_t SourceSearch::candidates() const {
  if (options().beam == 1) return 1;
  return static_cast<std::size_t>(options().beam) * std::max<std::size_t>(2, 1 + options().eos.size());
}

// A number of [0, 1) that depends on the seed, the place in the sequence and the draw's number alone, not on the batch.
double SourceSearch::uniform(std::size_t number) const {
  const RandomStream stream{*options().seed, static_cast<std::uint32_t>(step_), static_cast<std::uint32_t>(number)};
  const std::uint64_t bits = (std::uint64_t{stream.bits(0)} << 32U) | stream.bits(16);  // two words of one block
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

double SourceSearch::penalized(double sum, std::int64_t length) const {
  return sum / std::pow(static_cast<double>(length), options().length_penalty);
}

std::int64_t SourceSearch::add_node(const Running& parent, std::size_t row, std::int32_t token, float score) {
  nodes_.push_back({parent.node, first_attended_ < 0 ? -1 : first_attended_ + static_cast<std::int64_t>(row), token, score});
  return std::ssize(nodes_) - 1;
}

void SourceSearch::pick(std::size_t i, std::span<const float> logits, std::vector<Scored>& chosen) const {
  chosen.clear();
  if (!options().seed) return top_k(logits, candidates(), chosen);
  // In the first step one row stands for all draws.
  const std::size_t draws = step_ == 0 ? static_cast<std::size_t>(options().count) : 1;
  for (std::size_t d = 0; d < draws; ++d) {
    const std::int32_t token = draw(logits, uniform(running_[i].number + d));
    if (token >= 0) chosen.push_back({logits[static_cast<std::size_t>(token)], token});
  }
}

void SourceSearch::choose(std::size_t i, std::span<float> logits, std::vector<Scored>& chosen) const {
  for (const LogitsProcessor& process : options().processors) process(row(i), logits);
  pick(i, logits, chosen);
  if (chosen.empty() && options().beam == 1) nothing_left();
}

std::int64_t SourceSearch::needed(std::size_t i) const {
  std::int64_t count = options().seed ? LogitsProcessor::every : static_cast<std::int64_t>(candidates());
  for (auto p = options().processors.rbegin(); p != options().processors.rend() && count != LogitsProcessor::whole; ++p)
    count = p->needed(row(i), count);
  return count;
}

bool SourceSearch::choose_of(std::size_t i, std::span<const Scored> best, std::int64_t vocabulary, std::vector<Scored>& chosen) const {
  const auto count = std::find_if(best.begin(), best.end(), [](const Scored& s) { return s.id < 0; }) - best.begin();
  std::vector<Scored> by_id(best.begin(), best.begin() + count);
  if (options().processors.empty() && !options().seed) {
    chosen = std::move(by_id);
    if (chosen.size() > candidates()) chosen.resize(candidates());
  } else {
    std::sort(by_id.begin(), by_id.end(), [](const Scored& a, const Scored& b) { return a.id < b.id; });
    std::vector<std::int32_t> ids;
    std::vector<float> values;
    for (const Scored& s : by_id) ids.push_back(s.id), values.push_back(s.value);
    SomeLogits some{ids, values, vocabulary, count < std::ssize(best)};
    for (const LogitsProcessor& process : options().processors)
      if (!process.change(row(i), some)) return false;
    if (options().seed && !some.all) return false;
    pick(i, values, chosen);  // equal values stand by id here too
    for (Scored& s : chosen) s.id = ids[static_cast<std::size_t>(s.id)];
  }
  if (chosen.empty() && options().beam == 1) nothing_left();
  return true;
}

std::vector<std::size_t> SourceSearch::extend(const Step& step) {
  first_attended_ = options().alignment ? std::ssize(attended_) : -1;
  if (options().alignment) attended_.insert(attended_.end(), step.attended.begin(), step.attended.end());
  std::vector<std::size_t> parents = options().beam > 1 ? extend_beam(step) : extend_each(step);
  ++step_;
  return parents;
}

// Greedy search and sampling: every running sequence goes on by itself.
std::vector<std::size_t> SourceSearch::extend_each(const Step& step) {
  std::vector<std::size_t> parents;
  std::vector<Running> before = std::move(running_);
  running_.clear();
  for (std::size_t row = 0; row < before.size(); ++row) {
    const std::vector<Scored>& chosen = step.chosen[row];
    const std::span<const float> log_p = options().scores && !logarithms() ? step.log_p[row] : std::span<const float>();
    std::vector<Scored> best;
    if (options().alternatives > 0 && !log_p.empty()) top_k(log_p, static_cast<std::size_t>(options().alternatives), best);
    for (std::size_t d = 0; d < chosen.size(); ++d) {
      Running next = d + 1 < chosen.size() ? before[row] : std::move(before[row]);
      const std::int32_t id = chosen[d].id;
      const float score = logarithms() ? chosen[d].value : log_p.empty() ? 0.0F : log_p[static_cast<std::size_t>(id)];
      next.number += d;
      next.sum += static_cast<double>(score);
      next.ids.push_back(id);
      next.node = add_node(next, row, id, score);
      std::optional<FinishReason> finish;
      if (is_end(id)) finish = FinishReason::eos;
      else if (std::ssize(next.ids) >= source_.max_length) finish = FinishReason::length;
      if (source_.on_token && source_.on_token({next.number, id, finish, score, best}) && finish != FinishReason::eos)
        finish = FinishReason::stop;
      if (finish) {
        finished_.push_back({next.node, penalized(next.sum, step_ + 1), next.number, *finish});
      } else {
        running_.push_back(std::move(next));
        parents.push_back(row);
      }
    }
  }
  if (running_.empty())
    std::sort(finished_.begin(), finished_.end(), [](const Finished& a, const Finished& b) { return a.number < b.number; });
  return parents;
}

std::vector<SourceSearch::Candidate> SourceSearch::continuations(const Step& step) const {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < running_.size(); ++i)
    for (const Scored& token : step.chosen[i])
      all.push_back({running_[i].sum + static_cast<double>(token.value), i, token.id, token.value});
  // Candidates stand by row and, of equal scores, by id: a stable order keeps that.
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.sum > b.sum; });
  if (all.size() > candidates()) all.resize(candidates());
  return all;
}

// Beam search: the best `beam` continuations of all hypotheses.
std::vector<std::size_t> SourceSearch::extend_beam(const Step& step) {
  const auto width = static_cast<std::size_t>(options().beam);
  const std::vector<Candidate> all = continuations(step);
  const std::vector<Running> before = std::move(running_);
  const bool longest = prompt_ + step_ + 1 >= source_.max_length;
  running_.clear();
  std::vector<std::size_t> parents;
  for (std::size_t i = 0; i < all.size() && running_.size() < width; ++i) {
    const Candidate& c = all[i];
    const bool end = is_end(c.token);
    if ((end || longest) && i >= width) continue;
    const Running& parent = before[c.row];
    const std::int64_t node = add_node(parent, c.row, c.token, c.score);
    if (end || longest) {
      finish({node, penalized(c.sum, step_ + 1), 0, end ? FinishReason::eos : FinishReason::length});
    } else {
      Running& next = running_.emplace_back(Running{node, c.sum, 0, {}});
      next.ids.reserve(parent.ids.size() + 1);  // not twice
      next.ids = parent.ids;
      next.ids.push_back(c.token);
      parents.push_back(c.row);
    }
  }
  if (running_.empty() && finished_.empty()) nothing_left();
  if (is_done(step_ + 1)) running_.clear(), parents.clear();
  return parents;
}

void SourceSearch::finish(Finished hypothesis) {
  const auto at = std::upper_bound(finished_.begin(), finished_.end(), hypothesis,
                                   [](const Finished& a, const Finished& b) { return a.score > b.score; });
  finished_.insert(at, hypothesis);
  if (finished_.size() > static_cast<std::size_t>(options().beam)) finished_.pop_back();
}

// Is what is wanted there, and nothing that runs can become better? What comes later with the same score would stand behind it.
bool SourceSearch::is_settled(std::int64_t length) const {
  const auto wanted = static_cast<std::size_t>(options().count);
  if (!options().only_falls || finished_.size() < wanted) return false;
  const bool by_longest = options().length_penalty > 0.0;
  return finished_[wanted - 1].score >= penalized(running_.front().sum, by_longest ? source_.max_length - prompt_ : length);
}

bool SourceSearch::is_done(std::int64_t length) const {
  if (running_.empty() || is_settled(length)) return true;
  if (finished_.size() < static_cast<std::size_t>(options().beam)) return false;
  if (options().early_stopping == EarlyStopping::yes) return true;
  const double best = running_.front().sum;  // they are in order
  // Sums only fall. With a positive penalty the longest sequence divides them by most.
  const bool by_longest = options().early_stopping == EarlyStopping::never && options().length_penalty > 0.0;
  return finished_.back().score >= penalized(best, by_longest ? source_.max_length - prompt_ : length);
}

std::vector<Found> SourceSearch::results() const {
  std::vector<Found> out;
  for (const Finished& f : finished_) {
    if (out.size() == static_cast<std::size_t>(options().count)) break;
    Found& found = out.emplace_back();
    found.score = f.score;
    found.finish = f.finish;
    for (std::int64_t n = f.node; n >= 0; n = nodes_[static_cast<std::size_t>(n)].parent) {
      const Node& node = nodes_[static_cast<std::size_t>(n)];
      found.ids.push_back(node.token);
      if (logarithms() || options().scores) found.token_scores.push_back(node.score);
      if (node.attended >= 0) found.alignment.push_back(attended_[static_cast<std::size_t>(node.attended)]);
    }
    std::reverse(found.ids.begin(), found.ids.end());
    std::reverse(found.token_scores.begin(), found.token_scores.end());
    std::reverse(found.alignment.begin(), found.alignment.end());
  }
  return out;
}

}  // namespace transformer
