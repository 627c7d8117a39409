#pragma once
// A model whose probabilities are given by a function of what was generated so far, and one that answers by enumeration.

#include <cmath>
#include <functional>

#include "transformer/generate/search.h"

namespace transformer::test {

using Ids = std::vector<std::int32_t>;

struct FakeModel final : SequenceModel {
  using Probabilities = std::function<std::vector<float>(const Ids& source, const Ids& so_far)>;
  Probabilities probabilities;
  std::int64_t longest = 20;                   // tokens after the first
  bool decoder_only = false;                   // prompts are continued
  mutable std::vector<std::size_t> rows = {};  // of each step

  explicit FakeModel(Probabilities p) : probabilities(std::move(p)) {}
  SpecialTokens special() const override { return {}; }
  std::int64_t max_tokens() const override { return longest + 1; }
  std::int64_t max_source() const override { return 100; }

  struct Decoder final : StepDecoder {
    const FakeModel& model;
    std::vector<Ids> sources, so_far;
    explicit Decoder(const FakeModel& m) : model(m) {}
    Tensor next(Context& ctx, std::span<const std::int32_t> tokens, const Sequences& sequences, Attended*) override {
      const std::int64_t count = sequences.count();
      model.rows.push_back(static_cast<std::size_t>(count));
      std::vector<float> logits;
      for (std::size_t r = 0; r < so_far.size(); ++r) {
        const auto row = static_cast<std::int64_t>(r);
        const auto begin = tokens.begin() + sequences.begin(row);
        so_far[r].insert(so_far[r].end(), begin, begin + sequences.length(row));
        for (float p : model.probabilities(sources[r], so_far[r])) logits.push_back(std::log(p));
      }
      return Tensor::from<float>(ctx, {count, static_cast<std::int64_t>(logits.size()) / count}, logits);
    }
    void reorder(Context&, std::span<const std::int64_t> parents) override {
      std::vector<Ids> old_sources = sources, old = so_far;
      sources.clear(), so_far.clear();
      for (std::int64_t p : parents)
        sources.push_back(old_sources[static_cast<std::size_t>(p)]), so_far.push_back(old[static_cast<std::size_t>(p)]);
    }
  };
  std::vector<std::int32_t> prompt(std::span<const std::int32_t> source) const override {
    return decoder_only ? Ids(source.begin(), source.end()) : Ids{special().bos};
  }
  std::unique_ptr<StepDecoder> start(Context&, std::span<const std::span<const std::int32_t>> sources) const override {
    auto decoder = std::make_unique<Decoder>(*this);
    for (const auto& s : sources) decoder->sources.emplace_back(s.begin(), s.end());
    decoder->so_far.resize(sources.size());
    return decoder;
  }
};

}  // namespace transformer::test
