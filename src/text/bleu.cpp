#include "transformer/text/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "text/score.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

constexpr std::size_t orders = 4;

// Words as numbers, so that n-grams of words are n-grams of symbols.
class Numbering {
 public:
  explicit Numbering(const BleuOptions& options) : options_(options) {}
  std::u32string operator()(std::string_view line) {
    std::u32string symbols;
    for (std::string& word : bleu_words(line, options_))
      symbols += numbers_.emplace(std::move(word), static_cast<char32_t>(numbers_.size())).first->second;
    return symbols;
  }

 private:
  const BleuOptions& options_;
  std::unordered_map<std::string, char32_t> numbers_;
};

double smooth_value_of(const BleuOptions& options) {
  return options.smooth_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

void check_options(const BleuOptions& options) {
  const double value = smooth_value_of(options);
  if (!(value >= 0.0 && std::isfinite(value))) wrong_setting("bleu", "smooth_value", "is {}: expected 0 or more", value);
}

// Adds one segment's lengths, matches and totals.
void add_segment(BleuScore& sum, std::u32string_view hypothesis, std::span<const std::u32string> references) {
  const auto length = static_cast<std::int64_t>(hypothesis.size());
  const auto distance = [&](const std::u32string& reference) { return std::abs(static_cast<std::int64_t>(reference.size()) - length); };
  const auto& closest = *std::min_element(references.begin(), references.end(), [&](const auto& a, const auto& b) {
    return distance(a) != distance(b) ? distance(a) < distance(b) : a.size() < b.size();
  });
  sum.hypothesis_length += length;
  sum.reference_length += static_cast<std::int64_t>(closest.size());
  for (std::size_t n = 0; n < orders; ++n) {
    std::vector<Ngrams> known;
    for (const std::u32string& reference : references) known.push_back(count_ngrams(reference, n + 1));
    for (const auto& [ngram, count] : count_ngrams(hypothesis, n + 1)) {
      std::int64_t most = 0;
      for (const Ngrams& ngrams : known) most = std::max(most, count_of(ngrams, ngram));
      sum.matches[n] += std::min(count, most);
      sum.totals[n] += count;
    }
  }
}

// Precisions, brevity penalty and score from the sums.
void finish(BleuScore& sum, const BleuOptions& options) {
  const auto hypothesis = static_cast<double>(sum.hypothesis_length), reference = static_cast<double>(sum.reference_length);
  sum.brevity_penalty = hypothesis >= reference ? 1.0 : hypothesis > 0.0 ? std::exp(1.0 - reference / hypothesis) : 0.0;
  if (std::all_of(sum.matches.begin(), sum.matches.end(), [](std::int64_t m) { return m == 0; })) return;

  const double value = smooth_value_of(options);
  double halved = 1.0;
  std::size_t counted = orders;
  for (std::size_t n = 0; n < orders; ++n) {
    const double added = options.smoothing == BleuSmoothing::add_k && n > 0 ? value : 0.0;
    const double matches = static_cast<double>(sum.matches[n]) + added, total = static_cast<double>(sum.totals[n]) + added;
    if (total == 0.0) break;
    if (options.effective_order) counted = n + 1;
    if (matches > 0.0) sum.precisions[n] = 100.0 * matches / total;
    else if (options.smoothing == BleuSmoothing::exponential) sum.precisions[n] = 100.0 / ((halved *= 2.0) * total);
    else if (options.smoothing == BleuSmoothing::floor) sum.precisions[n] = 100.0 * value / total;
  }
  double logarithms = 0.0;
  for (std::size_t n = 0; n < counted; ++n) logarithms += std::log(sum.precisions[n]);  // log 0 = −∞ gives the score 0
  sum.score = sum.brevity_penalty * std::exp(logarithms / static_cast<double>(counted));
}

}  // namespace

BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options) {
  check_streams("bleu", hypotheses, references);
  check_options(options);
  Numbering numbers(options);
  BleuScore score;
  std::vector<std::u32string> lines(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t r = 0; r < references.size(); ++r) lines[r] = numbers(references[r][i]);
    add_segment(score, numbers(hypotheses[i]), lines);
  }
  finish(score, options);
  return score;
}

double sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, const BleuOptions& options) {
  std::vector<std::vector<std::string>> streams;
  for (const std::string& reference : references) streams.push_back({reference});
  return corpus_bleu(std::vector{std::string(hypothesis)}, streams, options).score;
}

std::string signature(const BleuOptions& options, std::int64_t references) {
  const auto name = [](auto value) {
    for (const auto& [candidate, text] : names(value))
      if (candidate == value) return std::string(text);
    fail("bleu", "unknown option {}", static_cast<int>(value));
  };
  std::string smoothing = name(options.smoothing);
  if (options.smoothing == BleuSmoothing::floor || options.smoothing == BleuSmoothing::add_k)
    smoothing += fmt::format("[{:.2f}]", smooth_value_of(options));
  return signature_of(references,
                      fmt::format("case:{}|eff:{}|tok:{}|smooth:{}", options.lowercase ? "lc" : "mixed",
                                  options.effective_order ? "yes" : "no", name(options.tokenizer), smoothing));
}

std::string describe(const BleuScore& score, const BleuOptions& options, std::int64_t references) {
  const auto& p = score.precisions;
  const double ratio = score.reference_length == 0
      ? 0.0
      : static_cast<double>(score.hypothesis_length) / static_cast<double>(score.reference_length);
  return fmt::format("BLEU|{} = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     signature(options, references), score.score, p[0], p[1], p[2], p[3], score.brevity_penalty, ratio,
                     score.hypothesis_length, score.reference_length);
}

}  // namespace transformer
