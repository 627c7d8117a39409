#pragma once
// A parallel English → Korean corpus out of a small grammar, for demonstrations that need no data: some eighty nouns, sixty
// verbs, twenty adjectives, numbers with counters, tenses, negation, places and times. Every English sentence has exactly
// one translation, in the plain written style:
//   The cat caught the mouse           고양이가 쥐를 잡았다
//   My friend didn't buy two books     내 친구가 책 두 권을 안 샀다
// Pronouns are topics (나는), nouns are subjects (고양이가). Nothing is random: the n-th sentence is always the same.

#include <cstdint>
#include <string>
#include <vector>

namespace transformer {

struct ToyPair {
  std::string source, target;  // English, Korean
  bool operator==(const ToyPair&) const = default;
};

class ToyCorpus {
 public:
  // The first `size` sentences, all different, up to a million; a larger corpus begins with the smaller ones.
  explicit ToyCorpus(std::int64_t size = 100'000);

  std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  const ToyPair& pair(std::int64_t index) const { return entry(index).pair; }

  // Whether sentence `index` is for testing: what it says (who does what with what) no sentence for training says in whatever
  // form, so that it cannot be learned by heart, while every word of it occurs there too (from 20,000 sentences on). About one
  // in twenty, and the sentences of the documents.
  bool held_out(std::int64_t index) const { return entry(index).held_out; }

  std::vector<ToyPair> training() const { return part(false); }
  std::vector<ToyPair> testing() const { return part(true); }

 private:
  struct Entry {
    ToyPair pair;
    bool held_out;
  };
  const Entry& entry(std::int64_t index) const;
  std::vector<ToyPair> part(bool held_out) const;
  std::vector<Entry> entries_;
};

// "I like money", "I love cats", "I go to school", "The cat caught the mouse", "The mouse caught the cat", "I study
// Transformer". They are the first sentences of every corpus that is large enough, held out.
std::vector<ToyPair> documents_sentences();

}  // namespace transformer
