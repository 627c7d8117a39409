#pragma once
// chrF (Popović, 2015) and chrF++ (2017) as sacreBLEU computes them: F-score of character n-grams and, in chrF++, of words.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transformer {

struct ChrfOptions {
  int char_order = 6;
  int word_order = 0;  // 2: chrF++
  int beta = 2;        // recall weighs beta times as much as precision
  bool lowercase = false;
  bool whitespace = false;      // spaces are characters too
  bool effective_order = true;  // precision and recall averaged over the orders that both sides have; off: F averaged over all orders

  static void visit(auto& self, auto&& field) {
    field("char_order", self.char_order, "longest character n-gram");
    field("word_order", self.word_order, "longest word n-gram: 0 for chrF, 2 for chrF++");
    field("beta", self.beta, "weight of recall against precision");
    field("lowercase", self.lowercase, "compare without regard to case");
    field("whitespace", self.whitespace, "count whitespace as characters");
    field("effective_order", self.effective_order, "leave out the n-gram orders that one side has none of");
  }
};

// 0 to 100. references: one vector per stream, each with one line per hypothesis; the best one of a line counts.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                   const ChrfOptions& options = {});
double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references, const ChrfOptions& options = {});

// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:transformer.cpp-0.1.0".
std::string signature(const ChrfOptions& options, std::int64_t references = 1);
// "chrF2++|SIGNATURE = 59.73".
std::string describe_chrf(double score, const ChrfOptions& options, std::int64_t references = 1);

}  // namespace transformer
