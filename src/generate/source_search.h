#pragma once
// One source under way in the loop: its running sequences, the finished ones, and how a step extends them.

#include <exception>

#include "generate/shared/loop.h"

namespace transformer {

class SourceSearch {
 public:
  SourceSearch(std::uint64_t number, LoopSource source);

  struct Running {
    std::int64_t node;              // -1: nothing but the prompt
    double sum;                     // of scores
    std::size_t number;             // among the draws
    std::vector<std::int32_t> ids;  // prompt and generated tokens
  };
  // What the model gave for the running sequences: a row each.
  struct Step {
    std::span<const std::vector<Scored>> chosen;        // by row: what it may go on with
    std::vector<std::span<const float>> log_p;          // by row, with LoopOptions::scores: log-probabilities before processing
    std::span<const std::vector<float>> attended = {};  // by row, with LoopOptions::alignment
  };

  std::uint64_t number() const { return number_; }
  const LoopSource& source() const { return source_; }
  const LoopOptions& options() const { return *source_.options; }
  const std::vector<Running>& running() const { return running_; }
  LogitsRow row(std::size_t i) const { return {running_[i].ids, prompt_, source_.ids, source_.max_length}; }
  bool logarithms() const { return options().log_probabilities || options().beam > 1; }

  // The tokens that row i may go on with, of its logits, which are processed: the best ones, or one for each draw. Error when none is
  // left.
  void choose(std::size_t i, std::span<float> logits, std::vector<Scored>& chosen) const;
  // How many of the best logits of row i that takes, or LogitsProcessor::every, or ::whole.
  std::int64_t needed(std::size_t i) const;
  // The same of so many of the best, the best first; of fewer where there are no others. False: they do not suffice.
  bool choose_of(std::size_t i, std::span<const Scored> best, std::int64_t vocabulary, std::vector<Scored>& chosen) const;
  // Takes a step; gives for each row that is running then the one that it goes on from. None: all sequences are done.
  std::vector<std::size_t> extend(const Step& step);
  std::vector<Found> results() const;

 private:
  // A generated token; the chain of parents is the sequence.
  struct Node {
    std::int64_t parent;    // -1: the first token
    std::int64_t attended;  // index of what it was predicted from, -1: not asked for
    std::int32_t token;
    float score;  // log-probability, or 0 where they are not known
  };
  struct Finished {
    std::int64_t node;
    double score;
    std::size_t number;
    FinishReason finish;
  };
  struct Candidate {
    double sum;
    std::size_t row;
    std::int32_t token;
    float score;
  };

  bool is_end(std::int32_t token) const;
  std::size_t candidates() const;
  void pick(std::size_t i, std::span<const float> logits, std::vector<Scored>& chosen) const;
  double uniform(std::size_t number) const;
  double penalized(double sum, std::int64_t length) const;
  std::int64_t add_node(const Running& parent, std::size_t row, std::int32_t token, float score);
  std::vector<std::size_t> extend_each(const Step& step);
  std::vector<std::size_t> extend_beam(const Step& step);
  std::vector<Candidate> continuations(const Step& step) const;
  void finish(Finished hypothesis);
  bool is_settled(std::int64_t length) const;
  bool is_done(std::int64_t length) const;

  std::uint64_t number_;
  LoopSource source_;
  std::int64_t prompt_, step_ = 0;
  std::vector<Running> running_;
  std::vector<Finished> finished_;  // beam search: best first, at most `beam`
  std::vector<Node> nodes_;
  std::vector<std::vector<float>> attended_;
  std::int64_t first_attended_ = -1;  // of this step's rows
};

}  // namespace transformer
