#pragma once
// The grammar of the toy corpus: a clause, what it says in English and in Korean, and how clauses are drawn.

#include <cstdint>
#include <optional>
#include <string>

#include "toys/corpus.h"
#include "toys/lexicon.h"

namespace transformer::toy {

enum class Determiner : std::uint8_t {
  pronoun,
  bare,        // "cats", "money": 고양이, 돈
  the,         // "the cat": 고양이
  the_plural,  // "the cats": 고양이들
  this_one,    // 이 고양이
  that_one,    // 저 고양이
  my,          // 내 고양이
  our,         // 우리 고양이
  his,         // 그의 고양이
  count,       // "a cat", "two cats", "two cups of tea": 고양이 한 마리, 고양이 두 마리, 차 두 잔
};

struct Phrase {
  Determiner determiner = Determiner::the;
  const Pronoun* pronoun = nullptr;
  const Noun* noun = nullptr;
  const Adjective* adjective = nullptr;
  std::int64_t number = 1;  // of count
};

enum class Polarity : std::uint8_t {
  positive,
  negative,    // "do not": -지 않는다
  contracted,  // "don't": 안
};

// One of: subject verb [object]; subject motion to place; subject is at place; subject is adjective.
struct Clause {
  enum class Pattern : std::uint8_t { action, motion, existence, quality } pattern = Pattern::action;
  Phrase subject;
  const Verb* verb = nullptr;  // action, motion
  std::optional<Phrase> object = std::nullopt;
  const Adjective* quality = nullptr;
  const Place* place = nullptr;
  const Time* time = nullptr;
  Tense tense = Tense::present;
  Polarity polarity = Polarity::positive;
};

ToyPair translate(const Clause& clause);

// The words that make the clause what it is, whatever their forms: "cat|catch|mouse", "I|go|to school", "bread|delicious".
std::string combination(const Clause& clause);

// A clause as a pure function of the draw's number.
Clause draw_clause(std::uint32_t draw);

}  // namespace transformer::toy
