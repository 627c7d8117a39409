#pragma once
// What BLEU and chrF share: counted n-grams, the check of what is compared, the end of a signature.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transformer {

// The n-grams of a sequence of symbols (code points, or words as numbers) with their counts, sorted. They are views of it.
using Ngrams = std::vector<std::pair<std::u32string_view, std::int64_t>>;
Ngrams count_ngrams(std::u32string_view symbols, std::size_t n);

std::int64_t count_of(const Ngrams& ngrams, std::u32string_view ngram);  // 0: not among them
std::int64_t total_of(const Ngrams& ngrams);

// Throws Error unless there is a hypothesis, and every stream of references has one line for each.
void check_streams(std::string_view metric, std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references);

// "nrefs:1" before and "version:transformer.cpp-0.1.0" after the metric's own fields.
std::string signature_of(std::int64_t references, std::string_view fields);

}  // namespace transformer
