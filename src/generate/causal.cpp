#include "transformer/generate/causal.h"

#include <limits>

#include "transformer/core/error.h"
#include "transformer/ops/embedding.h"
#include "transformer/ops/shape.h"

namespace transformer {
namespace {

class CausalDecoder final : public StepDecoder {
 public:
  CausalDecoder(const TextModel& model, std::int64_t rows, std::int64_t vocabulary)
      : model_(model), cache_(rows), vocabulary_(vocabulary) {}

  Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended* attended) override {
    if (attended != nullptr) fail("decoder", "alignments are of models with an encoder: this one has none");
    const std::int64_t rows = cache_.rows();
    if (sequences.count() != rows || sequences.total() != static_cast<std::int64_t>(tokens.size()))
      fail("decoder", "{} tokens in {} sequences given for {} rows: expected one sequence each", tokens.size(), sequences.count(), rows);
    std::vector<std::int64_t> last;  // the last new token of each row
    for (std::int64_t row = 0; row < rows; ++row) {
      if (sequences.length(row) < 1) fail("decoder", "row {} was given no token: expected one or more", row);
      last.push_back(sequences.begin(row) + sequences.length(row) - 1);
    }
    const Tensor ids = Tensor::from<std::int32_t>(ctx, {sequences.total()}, tokens);
    Tensor hidden = model_.hidden(ctx, {.ids = ids, .sequences = sequences, .cache = &cache_});  // [tokens, d]
    if (sequences.total() > rows)
      hidden = embedding(ctx, Tensor::from<std::int64_t>(ctx, {rows}, last), hidden, 1.0F, hidden.dtype());  // [rows, d]
    const Tensor logits = cast(ctx, model_.logits(ctx, hidden), DType::float32);                             // [rows, vocabulary]
    return vocabulary_ < logits.cols() ? contiguous(ctx, logits.column_block(0, vocabulary_)) : logits;
  }

  void reorder(Context& ctx, std::span<const std::int64_t> parents) override { cache_.reorder(ctx, parents); }

 private:
  const TextModel& model_;
  KVCache cache_;
  std::int64_t vocabulary_;
};

}  // namespace

CausalModel::CausalModel(const TextModel& model, SpecialTokens special, std::int64_t vocabulary)
    : model_(model), special_(special), vocabulary_(vocabulary > 0 ? vocabulary : model.text().vocabulary) {
  if (model.text().task != TextTask::causal_lm)
    fail("CausalModel", "the model has no causal language model head: it cannot go on from a text");
}

std::unique_ptr<StepDecoder> CausalModel::start(Context&, std::span<const std::span<const std::int32_t>> sources) const {
  return std::make_unique<CausalDecoder>(model_, static_cast<std::int64_t>(sources.size()), vocabulary_);
}

std::int64_t CausalModel::max_tokens() const {
  const TextConfig& c = model_.text();
  return c.positions > 0 ? c.positions - c.position_offset : std::numeric_limits<std::int64_t>::max();
}

}  // namespace transformer
