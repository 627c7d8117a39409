#pragma once
// One step of the model for all rows of a loop, and the tokens that each of them may go on with.

#include "generate/source_search.h"
#include "transformer/core/context.h"
#include "transformer/ops/top_k.h"

namespace transformer {

class NextTokens {
 public:
  explicit NextTokens(Context& ctx) : ctx_(ctx) {}

  // A running sequence of a source, and its row of the step's logits.
  struct Row {
    const SourceSearch* search;
    std::size_t number;
    std::int64_t value;
  };
  // Appends `tokens`, lengths[r] to each row r of the decoder, and chooses for those of its rows that are given here.
  void step(StepDecoder& decoder, std::span<const std::int32_t> tokens, const std::vector<std::int64_t>& lengths, std::vector<Row> rows);
  // What was found for `count` rows of the logits; Error where one of them cannot go on.
  SourceSearch::Step found(std::int64_t first, std::int64_t count) const;

 private:
  void compute(StepDecoder& decoder, std::span<const std::int32_t> tokens, const std::vector<std::int64_t>& lengths);
  std::int64_t best_needed();
  bool repeated(StepDecoder& decoder, std::span<const std::int32_t> tokens, std::int64_t best);
  void choose();
  template <class F>
  void each_row(F&& f);
  void choose_of_whole(const Row& r);

  Context& ctx_;
  std::vector<Row> rows_;
  Tensor values_, log_p_;                     // [rows that read a token, vocabulary]
  std::vector<std::vector<float>> attended_;  // by the same rows
  bool logarithms_ = false;                   // of all rows, instead of logits
  std::vector<std::int64_t> needed_;          // best logits, by rows_
  std::vector<Scored> best_;                  // of each row equally many, where the logits are not looked at
  std::vector<std::vector<Scored>> chosen_;   // by row of the logits
  std::vector<std::exception_ptr> failures_;  // by the same

  struct Recipe {
    std::uint64_t number = 0;
    std::int64_t best = 0;
    bool logarithms = false;
    bool operator==(const Recipe&) const = default;
  };
  static constexpr std::int64_t soonest = 4, latest = 64;  // steps that are alike before the next is recorded
  std::unique_ptr<Recorded> recorded_;
  Recipe recorded_step_;
  Tensor repeated_values_;  // of a step that is repeated
  TopK top_;                // of the same
  std::int64_t runs_ = 0, patience_ = soonest;
  std::int64_t steady_ = 0, steady_rows_ = 0;  // steps in a row with one token for each of as many rows
};

}  // namespace transformer
