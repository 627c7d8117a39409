#include "transformer/generate/decoder.h"

#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "transformer/core/error.h"
#include "transformer/ops/copy.h"

namespace transformer {
namespace {

class TranslationDecoder final : public StepDecoder {
  // Its part of the cache's memory.
  struct Source {
    std::int64_t begin, length;
  };

 public:
  TranslationDecoder(Context& ctx, const EncoderDecoder& model, std::span<const std::span<const std::int32_t>> sources, std::int32_t eos,
                     std::int64_t vocabulary)
      : model_(model), cache_(static_cast<std::int64_t>(sources.size())), source_eos_(eos), vocabulary_(vocabulary) {
    read(ctx, sources);
  }

  Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended* attended) override {
    const auto rows = static_cast<std::int64_t>(source_of_.size());
    if (sequences.count() != rows || sequences.total() != static_cast<std::int64_t>(tokens.size()))
      fail("decoder", "{} tokens in {} sequences given for {} rows: expected one sequence each", tokens.size(), sequences.count(), rows);
    const Tensor logits = read_tokens(ctx, Tensor::from<std::int32_t>(ctx, {sequences.total()}, tokens), sequences, attended);
    memory_ = {};  // its keys and values are in the cache
    return logits;
  }

  std::uint64_t prepare(Context& ctx, std::span<const std::int32_t> tokens) override {
    if (memory_.defined() || model_.decoder.token_positions) return 0;
    const std::uint64_t cached = cache_.prepare(ctx, tokens, model_.decoder.positions.offset);
    if (cached == 0) return 0;
    if (cached != cached_) {
      static std::atomic<std::uint64_t> numbers = 0;
      cached_ = cached, number_ = ++numbers;
    }
    return number_;
  }

  Tensor repeat(Context& ctx) override {
    const KVCache::Repeating repeating(cache_);
    return read_tokens(ctx, cache_.ids(), Sequences::uniform(cache_.rows(), 1), nullptr);
  }

  void reorder(Context& ctx, std::span<const std::int64_t> parents) override {
    cache_.reorder(ctx, parents);
    std::vector<std::size_t> source_of;
    for (std::int64_t parent : parents) source_of.push_back(source_of_[static_cast<std::size_t>(parent)]);
    if (source_of != source_of_) cached_ = 0;
    source_of_ = std::move(source_of);
  }

  // Sources that no row reads any more go.
  void add(Context& ctx, std::span<const std::span<const std::int32_t>> sources) override {
    if (memory_.defined()) fail("decoder", "sources are added before those that were there have been read: call next first");
    std::vector<Source> kept;
    std::vector<std::size_t> source_of;
    for (std::size_t row = 0; row < source_of_.size(); ++row) {
      if (row == 0 || source_of_[row] != source_of_[row - 1]) kept.push_back(sources_[source_of_[row]]);
      source_of.push_back(kept.size() - 1);
    }
    cache_.add_rows(std::ssize(sources));
    source_of_ = std::move(source_of);
    sources_ = std::move(kept);
    cached_ = 0;
    read(ctx, sources);
  }

  void share(std::int64_t row, std::int64_t like, std::int64_t length) override {
    if (source_of_.at(static_cast<std::size_t>(row)) != source_of_.at(static_cast<std::size_t>(like)))
      fail("decoder", "rows {} and {} read different sources: they have nothing to share", row, like);
    cache_.share(row, like, length);
  }

 private:
  // Logits of the token behind each row's last, of the rows that have new ones.
  Tensor read_tokens(Context& ctx, const Tensor& ids, const Sequences& sequences, Attended* attended) {
    // The rows of a source read its memory side by side.
    std::vector<std::int64_t> begins, lengths, readers, last;  // last: the last new token of each row that has any
    std::optional<std::size_t> reader;                         // the source of the row before
    for (std::size_t row = 0; row < source_of_.size(); ++row) {
      const std::int64_t added = sequences.length(static_cast<std::int64_t>(row));
      if (added == 0) continue;
      last.push_back((last.empty() ? -1 : last.back()) + added);
      if (reader == source_of_[row]) {
        readers.back() += added;
        continue;
      }
      reader = source_of_[row];
      begins.push_back(sources_[*reader].begin);
      lengths.push_back(sources_[*reader].length);
      readers.push_back(added);
    }
    StackTrace trace;
    Tensor hidden = model_.decode(ctx,
                                  {.ids = ids,
                                   .sequences = sequences,
                                   .memory = memory_,
                                   .memory_sequences = Sequences::with_gaps(begins, lengths, cache_.memory_rows()),
                                   .memory_readers = Sequences(readers),
                                   .cache = &cache_},
                                  attended != nullptr ? &trace : nullptr);
    if (attended != nullptr) read_weights(trace, lengths, readers, last, *attended);
    if (sequences.total() > std::ssize(last)) {
      Tensor ends = Tensor::empty(ctx, {std::ssize(last), hidden.cols()}, hidden.dtype());
      std::vector<std::int64_t> all(last.size());
      std::iota(all.begin(), all.end(), std::int64_t{0});
      copy_rows(ctx, hidden, last, ends, all);
      hidden = ends;
    }
    const Tensor logits = model_.logits(ctx, hidden);
    return vocabulary_ < logits.cols() ? logits.column_block(0, vocabulary_) : logits;
  }

  // The encoder's output for new sources, each with a row, behind those that are there.
  void read(Context& ctx, std::span<const std::span<const std::int32_t>> sources) {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    for (const auto& source : sources) {
      ids.insert(ids.end(), source.begin(), source.end());
      if (source_eos_ >= 0) ids.push_back(source_eos_);
      lengths.push_back(static_cast<std::int64_t>(source.size()) + (source_eos_ >= 0 ? 1 : 0));
    }
    const Sequences read(lengths);
    make_room(ctx, read.total());
    for (std::int64_t i = 0; i < read.count(); ++i) {
      source_of_.push_back(sources_.size());
      sources_.push_back({cache_.memory_end() + read.begin(i), read.length(i)});
    }
    memory_ = model_.encoder(ctx, Tensor::from<std::int32_t>(ctx, {read.total()}, ids), read);
  }

  void make_room(Context& ctx, std::int64_t tokens) {
    std::vector<std::int64_t> rows;
    for (const Source& s : sources_)
      for (std::int64_t i = 0; i < s.length; ++i) rows.push_back(s.begin + i);
    if (!cache_.make_memory_room(ctx, tokens, rows)) return;
    std::int64_t begin = 0;
    for (Source& s : sources_) s.begin = std::exchange(begin, begin + s.length);
  }

  // trace [sources, heads, longest readers, longest source] → the mean over the heads for the last new token of each row.
  static void read_weights(const StackTrace& trace, const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& readers,
                           const std::vector<std::int64_t>& last, Attended& attended) {
    const auto layers = static_cast<std::int64_t>(trace.cross_attentions.size());
    const std::int64_t layer = attended.layer < 0 ? layers + attended.layer : attended.layer;
    if (layer < 0 || layer >= layers)
      fail("decoder", "the weights of layer {} were asked for: the decoder has {} layers", attended.layer, layers);
    const Tensor weights = trace.cross_attentions[static_cast<std::size_t>(layer)].to_host();
    const std::int64_t heads = weights.dim(1), longest_reader = weights.dim(2), longest = weights.dim(3);
    const float* values = weights.data<float>();
    attended.weights.clear();
    std::int64_t first = 0;  // new token of this source
    for (std::size_t s = 0; s < lengths.size(); first += readers[s++]) {
      for (std::int64_t r = 0; r < readers[s]; ++r) {
        if (first + r != last[attended.weights.size()]) continue;
        auto& mean = attended.weights.emplace_back(static_cast<std::size_t>(lengths[s]), 0.0F);
        for (std::int64_t h = 0; h < heads; ++h) {
          const float* row = values + ((static_cast<std::int64_t>(s) * heads + h) * longest_reader + r) * longest;
          for (std::size_t j = 0; j < mean.size(); ++j) mean[j] += row[j] / static_cast<float>(heads);
        }
      }
    }
  }

  const EncoderDecoder& model_;
  KVCache cache_;
  std::int32_t source_eos_;
  std::int64_t vocabulary_;
  std::vector<Source> sources_;
  Tensor memory_;                          // until the first step
  std::vector<std::size_t> source_of_;     // of each row
  std::uint64_t cached_ = 0, number_ = 0;  // of what was last prepared: the cache's number, and ours; 0: rows read other sources than then
};

}  // namespace

std::uint64_t StepDecoder::prepare(Context&, std::span<const std::int32_t>) { return 0; }
Tensor StepDecoder::repeat(Context&) { fail("decoder", "no step has been prepared"); }
void StepDecoder::add(Context&, std::span<const std::span<const std::int32_t>>) {
  fail("decoder", "this one takes no new rows while it is under way");
}
void StepDecoder::share(std::int64_t, std::int64_t, std::int64_t) { fail("decoder", "rows of this one share nothing"); }

EncoderDecoderView::EncoderDecoderView(const EncoderDecoder& model, std::int32_t source_eos, SpecialTokens target, std::int64_t vocabulary,
                                       std::int32_t language)
    : model_(model), source_eos_(source_eos), target_(target), vocabulary_(vocabulary > 0 ? vocabulary : model.target_vocabulary()),
      language_(language) {
  if (target.bos < 0 || target.eos < 0)
    fail("EncoderDecoderView", "the target needs a start and an end token, got ids {} and {}", target.bos, target.eos);
}

std::vector<std::int32_t> EncoderDecoderView::prompt(std::span<const std::int32_t>) const {
  return language_ < 0 ? std::vector{target_.bos} : std::vector{target_.bos, language_};
}

std::unique_ptr<StepDecoder> EncoderDecoderView::start(Context& ctx, std::span<const std::span<const std::int32_t>> sources) const {
  return std::make_unique<TranslationDecoder>(ctx, model_, sources, source_eos_, vocabulary_);
}

}  // namespace transformer
