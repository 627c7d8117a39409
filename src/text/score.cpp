#include "text/score.h"

#include <fmt/format.h>

#include <algorithm>

#include "transformer/core/error.h"

namespace transformer {

Ngrams count_ngrams(std::u32string_view symbols, std::size_t n) {
  std::vector<std::u32string_view> all;
  if (symbols.size() >= n) all.reserve(symbols.size() - n + 1);
  for (std::size_t i = 0; i + n <= symbols.size(); ++i) all.push_back(symbols.substr(i, n));
  std::sort(all.begin(), all.end());
  Ngrams counts;
  for (const std::u32string_view ngram : all) {
    if (counts.empty() || counts.back().first != ngram) counts.emplace_back(ngram, 0);
    ++counts.back().second;
  }
  return counts;
}

std::int64_t count_of(const Ngrams& ngrams, std::u32string_view ngram) {
  const auto it = std::lower_bound(ngrams.begin(), ngrams.end(), ngram,
                                   [](const auto& entry, std::u32string_view key) { return entry.first < key; });
  return it != ngrams.end() && it->first == ngram ? it->second : 0;
}

std::int64_t total_of(const Ngrams& ngrams) {
  std::int64_t total = 0;
  for (const auto& [ngram, count] : ngrams) total += count;
  return total;
}

void check_streams(std::string_view metric, std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references) {
  if (hypotheses.empty()) fail(metric, "there are no hypotheses to score");
  if (references.empty()) fail(metric, "there are no references: expected one stream or more");
  for (std::size_t i = 0; i < references.size(); ++i)
    if (references[i].size() != hypotheses.size())
      fail(metric, "reference stream {} has {} lines, the hypotheses have {}: expected equal counts", i + 1, references[i].size(),
           hypotheses.size());
}

std::string signature_of(std::int64_t references, std::string_view fields) {
  return fmt::format("nrefs:{}|{}|version:transformer.cpp-{}", references, fields, TRANSFORMER_VERSION);
}

}  // namespace transformer
