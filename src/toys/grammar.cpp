#include "toys/grammar.h"

#include <cctype>

namespace transformer::toy {
namespace {

// Words with one space between them; empty ones leave none.
template <class... Words>
std::string join(const Words&... words) {
  std::string out;
  const auto add = [&](std::string_view word) {
    if (!word.empty()) (out += out.empty() ? "" : " ") += word;
  };
  (add(words), ...);
  return out;
}

bool is_plural(const Phrase& p) {
  return p.determiner == Determiner::bare ? !p.noun->plural.empty()
                                          : p.determiner == Determiner::the_plural || (p.determiner == Determiner::count && p.number > 1);
}

// ---- English

std::string english(const Phrase& p, bool as_subject) {
  if (p.determiner == Determiner::pronoun) return std::string(as_subject ? p.pronoun->subject : p.pronoun->object);
  const Noun& noun = *p.noun;
  std::string words = join(p.adjective != nullptr ? p.adjective->english : "",
                           is_plural(p) && !noun.plural.empty() ? noun.plural : noun.english);
  if (p.determiner == Determiner::count && noun.plural.empty()) words = join(p.number > 1 ? noun.measures : noun.measure, "of", words);
  switch (p.determiner) {
    case Determiner::pronoun:
    case Determiner::bare: return words;
    case Determiner::the:
    case Determiner::the_plural: return join("the", words);
    case Determiner::this_one: return join("this", words);
    case Determiner::that_one: return join("that", words);
    case Determiner::my: return join("my", words);
    case Determiner::our: return join("our", words);
    case Determiner::his: return join("his", words);
    case Determiner::count: break;
  }
  if (p.number > 1) return join(numbers()[static_cast<std::size_t>(p.number - 1)].english, words);
  return join(std::string_view("aeiou").find(words.front()) == std::string_view::npos ? "a" : "an", words);
}

bool third_singular(const Phrase& p) { return p.determiner == Determiner::pronoun ? p.pronoun->third_singular : !is_plural(p); }

std::string english_be(const Clause& c) {
  const bool first = c.subject.determiner == Determiner::pronoun && c.subject.pronoun->subject == "I", third = third_singular(c.subject);
  const std::string_view negation = c.polarity == Polarity::positive ? "" : "not";
  switch (c.tense) {
    case Tense::past: return join(first || third ? "was" : "were", negation);
    case Tense::present: return join(first ? "am" : third ? "is" : "are", negation);
    case Tense::future: break;
  }
  return join("will", negation, "be");
}

std::string english_verb(const Clause& c) {
  const bool third = third_singular(c.subject);
  if (c.tense == Tense::future)
    return join(c.polarity == Polarity::contracted ? "won't" : "will", c.polarity == Polarity::negative ? "not" : "", c.verb->english);
  if (c.polarity == Polarity::positive) return std::string(c.tense == Tense::past ? c.verb->past : third ? c.verb->third : c.verb->english);
  const std::string_view helper = c.tense == Tense::past ? "did" : third ? "does" : "do";
  return join(std::string(helper) + (c.polarity == Polarity::contracted ? "n't" : " not"), c.verb->english);
}

std::string english(const Clause& c) {
  const bool to_be = c.pattern == Clause::Pattern::existence || c.pattern == Clause::Pattern::quality;
  std::string out = join(english(c.subject, true), to_be ? english_be(c) : english_verb(c), c.object ? english(*c.object, false) : "",
                         c.quality != nullptr ? c.quality->english : "",
                         c.place == nullptr                         ? ""
                             : c.pattern == Clause::Pattern::motion ? c.place->to
                                                                    : c.place->at,
                         c.time != nullptr ? c.time->english : "");
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out;
}

// ---- Korean

// The phrase without its particle. sound is how its last word is said where that is not Hangul.
std::string korean(const Phrase& p, std::string_view& sound) {
  if (p.determiner == Determiner::pronoun) return std::string(p.pronoun->korean);
  std::string adjective;
  if (p.adjective != nullptr)
    adjective = p.adjective->before_noun.empty() ? attributive(p.adjective->stem) : std::string(p.adjective->before_noun);
  const std::string words = join(adjective, p.noun->korean);
  sound = p.noun->sound;
  switch (p.determiner) {
    case Determiner::pronoun:
    case Determiner::bare:
    case Determiner::the: return words;
    case Determiner::the_plural: return words + "들";
    case Determiner::this_one: return join("이", words);
    case Determiner::that_one: return join("저", words);
    case Determiner::my: return join("내", words);
    case Determiner::our: return join("우리", words);
    case Determiner::his: return join("그의", words);
    case Determiner::count: break;
  }
  sound = {};
  return join(words, numbers()[static_cast<std::size_t>(p.number - 1)].korean, p.noun->counter);
}

// Pronouns are topics (나는), nouns are subjects (고양이가).
std::string korean_subject(const Phrase& p) {
  std::string_view sound;
  const std::string words = korean(p, sound);
  return p.determiner == Determiner::pronoun ? with_topic(words, sound) : with_subject(words, sound);
}

std::string korean_object(const Phrase& p) {
  std::string_view sound;
  const std::string words = korean(p, sound);
  return with_object(words, sound);
}

std::string conjugated(const Stem& stem, Tense tense, bool adjective) {
  switch (tense) {
    case Tense::past: return past(stem);
    case Tense::present: return adjective ? std::string(stem.text) + "다" : present(stem);
    case Tense::future: break;
  }
  return future(stem);
}

// 가지 않는다, 크지 않다.
std::string denied(const Stem& stem, Tense tense, bool adjective) {
  return std::string(stem.text) + "지 " + conjugated({"않"}, tense, adjective);
}

std::string korean_predicate(const Clause& c) {
  switch (c.pattern) {
    case Clause::Pattern::existence: return conjugated({c.polarity == Polarity::positive ? "있" : "없"}, c.tense, true);
    case Clause::Pattern::quality:
      return c.polarity == Polarity::positive ? conjugated(c.quality->stem, c.tense, true) : denied(c.quality->stem, c.tense, true);
    case Clause::Pattern::action:
    case Clause::Pattern::motion: break;
  }
  const Verb& verb = *c.verb;
  if (c.polarity == Polarity::contracted) return join(verb.noun, "안", conjugated(verb.stem, c.tense, false));  // 공부 안 한다
  return std::string(verb.noun) +
      (c.polarity == Polarity::positive ? conjugated(verb.stem, c.tense, false) : denied(verb.stem, c.tense, false));
}

std::string korean(const Clause& c) {
  std::string place;
  if (c.place != nullptr) place = std::string(c.place->korean) + (c.pattern == Clause::Pattern::action ? "에서" : "에");
  return join(korean_subject(c.subject), c.time != nullptr ? c.time->korean : "", place, c.object ? korean_object(*c.object) : "",
              korean_predicate(c));
}

std::string_view lemma(const Phrase& p) { return p.determiner == Determiner::pronoun ? p.pronoun->subject : p.noun->english; }

}  // namespace

ToyPair translate(const Clause& clause) { return {english(clause), korean(clause)}; }

std::string combination(const Clause& c) {
  std::string out(lemma(c.subject));
  if (c.verb != nullptr) (out += '|') += c.verb->english;
  if (c.object) (out += '|') += lemma(*c.object);
  if (c.quality != nullptr) (out += '|') += c.quality->english;
  if (c.pattern == Clause::Pattern::motion) (out += '|') += c.place->to;
  if (c.pattern == Clause::Pattern::existence) (out += '|') += c.place->at;
  return out;
}

}  // namespace transformer::toy
