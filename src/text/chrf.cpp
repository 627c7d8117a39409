#include "transformer/text/chrf.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "io/shared/unicode.h"
#include "text/score.h"
#include "transformer/core/setting_error.h"

namespace transformer {
namespace {

// n-grams of one order: of the hypothesis (0 where the reference has none), of the reference, in both.
struct Order {
  std::int64_t hypothesis = 0, reference = 0, matches = 0;
};
using Statistics = std::vector<Order>;  // characters 1 … char_order, then words 1 … word_order

bool is_ascii_punctuation(char32_t c) {
  return c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
}

// A line as its characters and as its words, numbered; one mark is split off a word, at its end or else at its beginning.
struct Line {
  std::u32string text, characters, words;
  Line(std::string_view utf8, const ChrfOptions& options, std::unordered_map<std::u32string, char32_t>& numbers)
      : text(to_code_points(utf8)) {
    if (options.lowercase) text = to_lower(text);
    const auto add = [&](std::u32string_view word) { words += numbers.emplace(word, static_cast<char32_t>(numbers.size())).first->second; };
    for (const std::u32string_view word : split_words(text)) {
      characters += word;
      if (options.word_order == 0) continue;
      std::size_t cut = 0;
      if (word.size() > 1) cut = is_ascii_punctuation(word.back()) ? word.size() - 1 : is_ascii_punctuation(word.front()) ? 1 : 0;
      if (cut > 0) add(word.substr(0, cut));
      add(word.substr(cut));
    }
    if (options.whitespace) characters = text;
  }
  // The n-grams of every order.
  std::vector<Ngrams> ngrams(const ChrfOptions& options) const {
    std::vector<Ngrams> out;
    for (int n = 1; n <= options.char_order; ++n) out.push_back(count_ngrams(characters, static_cast<std::size_t>(n)));
    for (int n = 1; n <= options.word_order; ++n) out.push_back(count_ngrams(words, static_cast<std::size_t>(n)));
    return out;
  }
};

Order compare(const Ngrams& hypothesis, const Ngrams& reference) {
  Order order{.hypothesis = reference.empty() ? 0 : total_of(hypothesis), .reference = total_of(reference)};
  for (const auto& [ngram, count] : hypothesis) order.matches += std::min(count, count_of(reference, ngram));
  return order;
}

double f_score(const Statistics& orders, const ChrfOptions& options) {
  constexpr double epsilon = 1e-16;  // of an order that one side has none of, where all orders count
  const double weight = static_cast<double>(options.beta) * options.beta;
  const auto f = [&](double precision, double recall) { return (1.0 + weight) * precision * recall / (weight * precision + recall); };
  double precisions = 0.0, recalls = 0.0, scores = 0.0, effective = 0.0;
  for (const auto& [hypothesis, reference, matches] : orders) {
    const double precision = hypothesis > 0 ? static_cast<double>(matches) / static_cast<double>(hypothesis) : epsilon;
    const double recall = reference > 0 ? static_cast<double>(matches) / static_cast<double>(reference) : epsilon;
    scores += weight * precision + recall > 0.0 ? f(precision, recall) : epsilon;
    if (hypothesis == 0 || reference == 0) continue;
    precisions += precision, recalls += recall, effective += 1.0;
  }
  if (!options.effective_order) return 100.0 * scores / static_cast<double>(orders.size());
  return precisions + recalls > 0.0 ? 100.0 * f(precisions / effective, recalls / effective) : 0.0;
}

// The statistics against the reference with the best score, the first of equals.
Statistics best_match(const std::vector<Ngrams>& hypothesis, const std::vector<std::vector<Ngrams>>& references,
                      const ChrfOptions& options) {
  Statistics best;
  double best_score = -1.0;
  for (const std::vector<Ngrams>& reference : references) {
    Statistics orders;
    for (std::size_t i = 0; i < reference.size(); ++i) orders.push_back(compare(hypothesis[i], reference[i]));
    const double score = f_score(orders, options);
    if (score > best_score) best_score = score, best = std::move(orders);
  }
  return best;
}

void check_options(const ChrfOptions& options) {
  if (options.char_order < 0 || options.word_order < 0 || options.char_order + options.word_order < 1)
    wrong_setting("chrf", "char_order", "is {} and word_order {}: expected 0 or more, and not both 0", options.char_order,
                  options.word_order);
  if (options.beta < 1) wrong_setting("chrf", "beta", "is {}: expected 1 or more", options.beta);
}

}  // namespace

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options) {
  check_streams("chrf", hypotheses, references);
  check_options(options);
  std::unordered_map<std::u32string, char32_t> numbers;
  Statistics sum(static_cast<std::size_t>(options.char_order + options.word_order));
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<Line> lines;  // own what the n-grams are views of
    for (const std::vector<std::string>& stream : references) lines.emplace_back(stream[i], options, numbers);
    const Line hypothesis(hypotheses[i], options, numbers);
    std::vector<std::vector<Ngrams>> known;
    for (const Line& line : lines) known.push_back(line.ngrams(options));
    const Statistics best = best_match(hypothesis.ngrams(options), known, options);
    for (std::size_t n = 0; n < sum.size(); ++n) {
      sum[n].hypothesis += best[n].hypothesis;
      sum[n].reference += best[n].reference;
      sum[n].matches += best[n].matches;
    }
  }
  return f_score(sum, options);
}

double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references, const ChrfOptions& options) {
  std::vector<std::vector<std::string>> streams;
  for (const std::string& reference : references) streams.push_back({reference});
  return corpus_chrf(std::vector{std::string(hypothesis)}, streams, options);
}

std::string signature(const ChrfOptions& options, std::int64_t references) {
  return signature_of(
      references,
      fmt::format("case:{}|eff:{}|nc:{}|nw:{}|space:{}", options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no",
                  options.char_order, options.word_order, options.whitespace ? "yes" : "no"));
}

std::string describe_chrf(double score, const ChrfOptions& options, std::int64_t references) {
  return fmt::format("chrF{}{}|{} = {:.2f}", options.beta, std::string(static_cast<std::size_t>(std::max(options.word_order, 0)), '+'),
                     signature(options, references), score);
}

}  // namespace transformer
