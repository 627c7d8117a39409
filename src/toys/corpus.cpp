#include "toys/corpus.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "toys/grammar.h"
#include "transformer/core/error.h"

namespace transformer {
namespace {

const toy::Verb& verb(std::span<const toy::Verb> table, std::string_view english) {
  const auto it = std::find_if(table.begin(), table.end(), [&](const toy::Verb& v) { return v.english == english; });
  if (it == table.end()) fail("toy corpus", "no verb '{}'", english);
  return *it;
}

const std::vector<toy::Clause>& documents_clauses() {
  static const std::vector<toy::Clause> clauses = [] {
    using toy::Clause, toy::Phrase, toy::Determiner, toy::noun;
    const Phrase i{.determiner = Determiner::pronoun, .pronoun = &toy::pronoun("I")};
    const auto with = [](Determiner determiner, std::string_view word) { return Phrase{.determiner = determiner, .noun = &noun(word)}; };
    const auto does = [&](const Phrase& who, std::string_view what, const Phrase& whom, toy::Tense tense = toy::Tense::present) {
      return Clause{.subject = who, .verb = &verb(toy::transitive_verbs(), what), .object = whom, .tense = tense};
    };
    const Phrase cat = with(Determiner::the, "cat"), mouse = with(Determiner::the, "mouse");
    return std::vector<Clause>{
        does(i, "like", with(Determiner::bare, "money")),
        does(i, "love", with(Determiner::bare, "cat")),
        {.pattern = Clause::Pattern::motion, .subject = i, .verb = &verb(toy::motion_verbs(), "go"), .place = &toy::place("school")},
        does(cat, "catch", mouse, toy::Tense::past),
        does(mouse, "catch", cat, toy::Tense::past),
        does(i, "study", with(Determiner::bare, "Transformer")),
    };
  }();
  return clauses;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

// One combination in twenty, and those of the documents.
bool is_held_out(const toy::Clause& clause) {
  static const std::unordered_set<std::string> documents = [] {
    std::unordered_set<std::string> set;
    for (const toy::Clause& c : documents_clauses()) set.insert(combination(c));
    return set;
  }();
  const std::string what = combination(clause);
  return (fnv1a(what) >> 32) % 20 == 0 || documents.contains(what);
}

}  // namespace

ToyCorpus::ToyCorpus(std::int64_t size) {
  if (size < 0 || size > 1'000'000) fail("toy corpus", "size is {}: expected 0 to 1000000", size);
  const auto wanted = static_cast<std::size_t>(size);
  entries_.reserve(wanted);
  std::unordered_set<std::string> seen;
  const auto add = [&](const toy::Clause& clause) {
    ToyPair pair = translate(clause);
    if (entries_.size() < wanted && seen.insert(pair.source).second) entries_.push_back({std::move(pair), is_held_out(clause)});
  };
  for (const toy::Clause& clause : documents_clauses()) add(clause);
  for (std::uint32_t draw = 0; entries_.size() < wanted; ++draw) add(toy::draw_clause(draw));
}

const ToyCorpus::Entry& ToyCorpus::entry(std::int64_t index) const {
  if (index < 0 || index >= size()) fail("toy corpus", "index is {}: expected 0 to {}", index, size() - 1);
  return entries_[static_cast<std::size_t>(index)];
}

std::vector<ToyPair> ToyCorpus::part(bool held_out) const {
  std::vector<ToyPair> pairs;
  for (const Entry& e : entries_)
    if (e.held_out == held_out) pairs.push_back(e.pair);
  return pairs;
}

std::vector<ToyPair> documents_sentences() {
  std::vector<ToyPair> pairs;
  for (const toy::Clause& clause : documents_clauses()) pairs.push_back(translate(clause));
  return pairs;
}

}  // namespace transformer
