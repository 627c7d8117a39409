#pragma once
// The words of the toy corpus, English and Korean.

#include <cstdint>
#include <span>
#include <string_view>

#include "toys/hangul.h"

namespace transformer::toy {

// Kinds of nouns; verbs and adjectives name the kinds that go with them.
using Kinds = std::uint32_t;
namespace kind {
inline constexpr Kinds person = 1 << 0, kin = 1 << 1, animal = 1 << 2, food = 1 << 3, fruit = 1 << 4, drink = 1 << 5, written = 1 << 6,
                       printed = 1 << 7, thing = 1 << 8, plant = 1 << 9, opening = 1 << 10, ball = 1 << 11, vehicle = 1 << 12,
                       house = 1 << 13, study = 1 << 14, song = 1 << 15, music = 1 << 16, idea = 1 << 17;
inline constexpr Kinds people = person | kin, alive = people | animal, eaten = food | fruit, read = written | printed,
                       goods = thing | opening | ball | vehicle | house;
}  // namespace kind

struct Pronoun {
  std::string_view subject, object, korean;
  bool third_singular;
  int group;  // pronouns of one group are not subject and object of the same verb
};

struct Noun {
  std::string_view english, plural;  // plural empty: cannot be counted
  std::string_view korean;
  Kinds kind;
  std::string_view counter = {};                 // 고양이 두 마리
  std::string_view measure = {}, measures = {};  // "two cups of tea"
  std::string_view sound = {};                   // where korean is not Hangul
};

struct Verb {
  std::string_view english, third, past;  // past empty: the same as the present, and left out
  std::string_view noun;                  // of 공부-하다: 안 goes between
  Stem stem;
  Kinds subjects, objects = 0;
  bool action = true;  // takes times and places
};

struct Adjective {
  std::string_view english;
  Stem stem;                          // empty: only before nouns
  std::string_view before_noun = {};  // empty: regular
  Kinds nouns = 0;
};

struct Place {
  std::string_view english;  // names the place in held-out combinations
  std::string_view to, at;   // "to school", "at school"
  std::string_view korean;
};

enum class Tense : std::uint8_t { past, present, future };
struct Time {
  std::string_view english, korean;
  Tense tense;
};

struct Number {
  std::string_view english, korean;
};

std::span<const Pronoun> pronouns();
std::span<const Noun> nouns();
std::span<const Verb> transitive_verbs();
std::span<const Verb> intransitive_verbs();
std::span<const Verb> motion_verbs();
std::span<const Adjective> adjectives();
std::span<const Place> places();
std::span<const Time> times();
std::span<const Number> numbers();  // from one

// The entry with this English word; Error when there is none.
const Pronoun& pronoun(std::string_view subject);
const Noun& noun(std::string_view english);
const Place& place(std::string_view english);

}  // namespace transformer::toy
