#pragma once
// Parallel text: from two files, or one with tabs, to batches for translation.
//
//   PairReport report;
//   auto data = PairDataset::load("train.en", "train.ko", *tokenizer, *tokenizer, {.max_length = 256}, report);
//   for (const auto& indices : plan_epoch(data, 4096, seed, epoch)) use(make_batch(data, indices));

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transformer/io/delimited.h"
#include "transformer/text/token_lists.h"
#include "transformer/tokenizers/tokenizer_pair.h"

namespace transformer {

// Something that gives pairs of sentences, one per call, until it returns false.
using PairSource = std::function<bool(std::string& source, std::string& target)>;

// Line i of one file belongs to line i of the other; Error at the end if they have not the same number of lines, or none.
// The files are opened here, so that a missing one is known at once.
PairSource read_pairs(const std::string& source, const std::string& target);
// The first two columns of a table with tabs, in .csv files commas or the like (io/delimited.h). Error for a record of one column.
// Header::automatic: the first record is one when it has usual names, such as source and target, or two languages, en and ko.
PairSource read_tsv(const std::string& path, Header header = Header::automatic);

enum class PairSide : std::uint8_t { source, target, both };
// The sentences of one side, or of both by turns, to train a tokenizer on.
LineSource lines_of(PairSource pairs, PairSide side);

// Which pairs are kept; 0 means any.
struct PairFilter {
  std::int64_t max_length = 0;  // tokens of either side, special tokens not counted
  double max_ratio = 0.0;       // of the longer side to the shorter one

  static void visit(auto& self, auto&& field) {
    field("max_length", self.max_length, "leave out pairs with more tokens on a side (0: none)");
    field("max_ratio", self.max_ratio, "leave out pairs with a side this many times longer than the other (0: none)");
  }
};

// What became of the pairs that were read. A pair is counted once, under the first reason.
struct PairReport {
  std::int64_t total = 0;
  std::int64_t empty = 0, too_long = 0, unbalanced = 0;  // dropped: a side without tokens, max_length, max_ratio
  std::int64_t invalid_utf8 = 0;                         // sequences replaced by U+FFFD

  std::int64_t kept() const { return total - empty - too_long - unbalanced; }
};

// The tokens that make_batch puts around sentences.
struct PairTokens {
  std::int32_t source_end = -1;    // behind every source; -1: none
  std::int32_t target_start = -1;  // what the decoder begins with
  std::int32_t target_end = -1;    // behind every target
};
// With the target's special tokens as the model has them, which may be others than its tokenizer says. A tokenizer of a Hugging
// Face model decides itself whether a source has an end token. Error if a token is missing.
PairTokens pair_tokens(const Tokenizer& source, const SpecialTokens& target);
// The same of a model for many languages, too: mBART's decoder begins with the target's language, and must predict it behind the end.
PairTokens pair_tokens(const TokenizerPair& tokenizers, const SpecialTokens& target);

// Token ids of all pairs, in memory. Sentences have what a tokenizer of a Hugging Face model puts around them (BART: <s> … </s>),
// but for the end token, which make_batch adds.
class PairDataset {
 public:
  explicit PairDataset(const PairTokens& tokens) : tokens_(tokens) {}
  // With the tokens of the tokenizers; an Error here if one of them has not what is needed.
  PairDataset(const Tokenizer& source, const Tokenizer& target) : PairDataset(pair_tokens(source, target.special_tokens())) {}

  // Reads, tokenises (on `threads` threads, 0: all) and filters. `tokens`: other ones than those of the tokenizers. The report is
  // filled even when this throws. Error when there are no pairs, or none is kept.
  static PairDataset load(const PairSource& pairs, const Tokenizer& source_tokenizer, const Tokenizer& target_tokenizer,
                          const PairFilter& filter, PairReport& report, int threads = 0, const std::optional<PairTokens>& tokens = {});
  static PairDataset load(const std::string& source, const std::string& target, const Tokenizer& source_tokenizer,
                          const Tokenizer& target_tokenizer, const PairFilter& filter, PairReport& report, int threads = 0);

  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target);

  std::int64_t size() const { return source_.count(); }
  std::span<const std::int32_t> source(std::int64_t i) const { return source_.at(i); }
  std::span<const std::int32_t> target(std::int64_t i) const { return target_.at(i); }
  std::int64_t source_tokens() const { return source_.total(); }  // special tokens not counted
  std::int64_t target_tokens() const { return target_.total(); }
  std::int32_t source_eos() const { return tokens_.source_end; }
  std::int32_t target_bos() const { return tokens_.target_start; }
  std::int32_t target_eos() const { return tokens_.target_end; }

  // A hash of all of the above, the same on every machine: training that is resumed on other data can be refused.
  std::uint64_t fingerprint() const;

 private:
  TokenLists source_, target_;
  PairTokens tokens_;
};

// The batches of an epoch, as indices into the data: every pair once; in no batch do the source tokens or the target tokens,
// each with one special token per sentence, exceed max_tokens; sentences of a batch have similar lengths; the order of the
// batches is random. A pure function of its arguments and of the lengths, the same on every machine: a position in the data
// is (epoch, number of the batch). Error if a pair is too long for a batch of its own.
std::vector<std::vector<std::int64_t>> plan_epoch(const PairDataset& data, std::int64_t max_tokens, std::uint64_t seed, std::int64_t epoch);

// A batch without padding, on the host: sentence after sentence.
struct PairIds {
  std::vector<std::int32_t> source;                          // ids, eos (where the model has one)
  std::vector<std::int32_t> target;                          // bos, ids: what the decoder is given
  std::vector<std::int32_t> labels;                          // ids, eos: what it must predict
  std::vector<std::int64_t> source_lengths, target_lengths;  // with the special token
};

PairIds make_batch(const PairDataset& data, std::span<const std::int64_t> indices);

// Made pairs behind the others, with the label `ignored`, so that batches have few sizes: the numbers of pairs and of tokens, and the
// longest sentence, become multiples of an eighth of their size or so, but no sentence longer than a side's limit. For devices that repeat
// what they have seen, and choose the way of a product by its size; what the batch teaches stays the same.
struct RoundedSizes {
  std::int64_t longest_source, longest_target;  // limits
  std::int32_t ignored;
};
void round_sizes(PairIds& batch, const RoundedSizes& limits);

}  // namespace transformer
