#pragma once
// BLEU (Papineni et al., 2002) as sacreBLEU computes it: the same tokenizers, smoothing and lengths, hence the same score.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/io/config.h"

namespace transformer {

enum class BleuTokenizer : std::uint8_t {
  v13a,       // mteval-v13a: entities undone, ASCII punctuation split off, but not . , between digits
  none,       // words are what stands between whitespace: for text that is tokenised already
  character,  // every code point but whitespace
  intl,       // mteval-v14: punctuation and symbols of all scripts split off
};
inline EnumNames<BleuTokenizer> names(BleuTokenizer) {
  return {{BleuTokenizer::v13a, "13a"}, {BleuTokenizer::none, "none"}, {BleuTokenizer::character, "char"}, {BleuTokenizer::intl, "intl"}};
}

// What an n-gram order without any match counts as (Chen and Cherry, 2014).
enum class BleuSmoothing : std::uint8_t {
  exponential,  // 1/2, 1/4, 1/8 … of a match, for the first, second, third such order
  floor,        // smooth_value matches
  add_k,        // all orders but the first: smooth_value more matches and more n-grams
  none,         // nothing: the score is 0
};
inline EnumNames<BleuSmoothing> names(BleuSmoothing) {
  return {
      {BleuSmoothing::exponential, "exp"}, {BleuSmoothing::floor, "floor"}, {BleuSmoothing::add_k, "add-k"}, {BleuSmoothing::none, "none"}};
}

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> smooth_value = std::nullopt;  // floor (0.1 when absent) and add-k (1 when absent)
  bool effective_order = false;                       // orders longer than every hypothesis do not count: for single sentences

  static void visit(auto& self, auto&& field) {
    field("tokenize", self.tokenizer, "how lines are cut into words");
    field("lowercase", self.lowercase, "compare without regard to case");
    field("smooth_method", self.smoothing, "what an n-gram order without a match counts as");
    field("smooth_value", self.smooth_value, "the value of floor (0.1) and add-k (1)");
    field("effective_order", self.effective_order, "leave out the orders that no hypothesis is long enough for");
  }
};

struct BleuScore {
  double score = 0.0;                  // 0 to 100
  std::array<double, 4> precisions{};  // of 1-grams to 4-grams, in percent, smoothed
  double brevity_penalty = 0.0;        // exp(1 − reference / hypothesis length) where the hypotheses are shorter, else 1
  std::int64_t hypothesis_length = 0, reference_length = 0;  // words; of several references the length closest to the hypothesis
  std::array<std::int64_t, 4> matches{}, totals{};           // n-grams found in a reference, and all
};

// references: one vector per stream, each with one line per hypothesis; a match in any of them counts.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::vector<std::string>> references,
                      const BleuOptions& options = {});

// One sentence against its references. Leave effective_order on.
double sentence_bleu(std::string_view hypothesis, std::span<const std::string> references,
                     const BleuOptions& options = {.effective_order = true});

// The words that are compared.
std::vector<std::string> bleu_words(std::string_view line, const BleuOptions& options = {});

// What a reader needs to repeat a score: "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:transformer.cpp-0.1.0".
std::string signature(const BleuOptions& options, std::int64_t references = 1);
// "BLEU|SIGNATURE = 34.75 66.7/41.7/30.0/18.8 (BP = 0.983 ratio = 0.983 hyp_len = 58 ref_len = 59)".
std::string describe(const BleuScore& score, const BleuOptions& options, std::int64_t references = 1);

}  // namespace transformer
