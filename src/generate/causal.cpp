#include "generate/shared/causal.h"

#include <algorithm>
#include <limits>

#include "transformer/core/error.h"
#include "transformer/ops/embedding.h"

namespace transformer {
namespace {

constexpr std::int64_t endless = std::numeric_limits<std::int64_t>::max();

class CausalDecoder final : public StepDecoder {
 public:
  // window: tokens that a row may hold, the older half of which is forgotten when there are more; 0: all are kept.
  CausalDecoder(const TextModel& model, std::int64_t rows, std::int64_t vocabulary, std::int64_t window)
      : model_(model), cache_(rows), vocabulary_(vocabulary), window_(window), held_(static_cast<std::size_t>(rows)) {}

  Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended* attended) override {
    if (attended != nullptr) fail("decoder", "alignments are of models with an encoder: this one has none");
    const std::int64_t rows = cache_.rows();
    if (sequences.count() != rows || sequences.total() != static_cast<std::int64_t>(tokens.size()))
      fail("decoder", "{} tokens in {} sequences given for {} rows: expected one sequence each", tokens.size(), sequences.count(), rows);
    if (window_ == 0) return read(ctx, tokens, sequences);
    std::vector<std::int32_t> all;
    std::vector<std::int64_t> lengths;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto added = tokens.subspan(static_cast<std::size_t>(sequences.begin(row)), static_cast<std::size_t>(sequences.length(row)));
      const std::vector<std::int32_t> unread = hold(row, added);
      all.insert(all.end(), unread.begin(), unread.end());
      lengths.push_back(std::ssize(unread));
    }
    return read(ctx, all, Sequences(lengths));
  }

  std::uint64_t prepare(Context& ctx, std::span<const std::int32_t> tokens) override {
    const TextConfig& c = model_.text();
    if (window_ > 0 || c.stack.rope.scaling == RopeScaling::dynamic) return 0;  // what is computed depends on lengths
    return cache_.prepare(ctx, tokens, c.positions > 0 ? c.position_offset : 0);
  }

  Tensor repeat(Context& ctx) override {
    const KVCache::Repeating repeating(cache_);
    return logits(ctx,
                  model_.hidden(ctx,
                                {.ids = cache_.ids(),
                                 .sequences = Sequences::uniform(cache_.rows(), 1),
                                 .positions = cache_.positions(),
                                 .longest = cache_.last_position() + 1,
                                 .cache = &cache_}));
  }

  void add(Context&, std::span<const std::span<const std::int32_t>> sources) override {
    cache_.add_rows(std::ssize(sources));
    held_.resize(held_.size() + sources.size());
  }

  void share(std::int64_t row, std::int64_t like, std::int64_t length) override {
    if (window_ > 0) {
      std::vector<std::int32_t> held = held_.at(static_cast<std::size_t>(like));
      held.resize(static_cast<std::size_t>(length));
      held_.at(static_cast<std::size_t>(row)) = std::move(held);
    }
    cache_.share(row, like, length);
  }

  void reorder(Context& ctx, std::span<const std::int64_t> parents) override {
    cache_.reorder(ctx, parents);
    std::vector<std::vector<std::int32_t>> held;
    for (const std::int64_t parent : parents) held.push_back(held_[static_cast<std::size_t>(parent)]);
    held_ = std::move(held);
  }

 private:
  // Logits of the token behind each row's last, of the rows that have new ones.
  Tensor read(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences) {
    std::vector<std::int64_t> last;  // the last new token of each row
    for (std::int64_t row = 0; row < sequences.count(); ++row)
      if (sequences.length(row) > 0) last.push_back(sequences.begin(row) + sequences.length(row) - 1);
    const std::int64_t rows = std::ssize(last);
    const Tensor ids = Tensor::from<std::int32_t>(ctx, {sequences.total()}, tokens);
    Tensor hidden = model_.hidden(ctx, {.ids = ids, .sequences = sequences, .cache = &cache_});  // [tokens, d]
    if (sequences.total() > rows)
      hidden = embedding(ctx, Tensor::from<std::int64_t>(ctx, {rows}, last), hidden, 1.0F, hidden.dtype());  // [rows, d]
    return logits(ctx, hidden);
  }

  Tensor logits(Context& ctx, const Tensor& hidden) const {
    const Tensor all = model_.logits(ctx, hidden);  // [rows, vocabulary]
    return vocabulary_ < all.cols() ? all.column_block(0, vocabulary_) : all;
  }

  // Holds new tokens of a row, and gives those that are to be read. Where there are more than fit the row is cut and all that is left is
  // read again, since keys and values know their position and what came before: of a prompt as much as fits is kept, of a text that
  // becomes longer the newer half, so that it is not read again for every token.
  std::vector<std::int32_t> hold(std::int64_t row, std::span<const std::int32_t> added) {
    std::vector<std::int32_t>& held = held_[static_cast<std::size_t>(row)];
    const std::int64_t kept = held.empty() ? window_ : std::max<std::int64_t>(window_ / 2, 1);
    held.insert(held.end(), added.begin(), added.end());
    if (std::ssize(held) <= window_) return {added.begin(), added.end()};
    held.erase(held.begin(), held.end() - kept);
    cache_.share(row, row, 0);
    return held;
  }

  const TextModel& model_;
  KVCache cache_;
  std::int64_t vocabulary_, window_;
  std::vector<std::vector<std::int32_t>> held_;  // what the cache has read, by row; with a window only
};

}  // namespace

CausalView::CausalView(const TextModel& model, SpecialTokens special, std::int64_t vocabulary, bool slide)
    : model_(model), special_(special), vocabulary_(vocabulary > 0 ? vocabulary : model.text().vocabulary), slide_(slide) {
  if (model.text().task != TextTask::causal_lm)
    fail("CausalView", "the model has no causal language model head: it cannot go on from a text");
}

std::unique_ptr<StepDecoder> CausalView::start(Context&, std::span<const std::span<const std::int32_t>> sources) const {
  const std::int64_t window = slide_ && places() < endless ? places() : 0;
  return std::make_unique<CausalDecoder>(model_, static_cast<std::int64_t>(sources.size()), vocabulary_, window);
}

std::int64_t CausalView::places() const {
  const TextConfig& c = model_.text();
  return c.positions > 0 ? c.positions - c.position_offset : endless;
}

std::int64_t CausalView::max_tokens() const { return slide_ ? endless : places(); }

}  // namespace transformer
