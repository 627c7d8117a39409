// How the clauses of the toy corpus are drawn: first what is said, then by whom, then the forms.
#include <initializer_list>
#include <span>
#include <utility>

#include "toys/grammar.h"
#include "transformer/core/random.h"

namespace transformer::toy {
namespace {

class Draw {
 public:
  explicit Draw(std::uint32_t draw) : stream_{.seed = 0x746F79, .step = draw, .op = 0} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((static_cast<std::uint64_t>(stream_.bits(element_++)) * n) >> 32); }
  bool percent(std::size_t chance) { return below(100) < chance; }
  template <class T>
  const T& one_of(std::span<const T> items) {
    return items[below(items.size())];
  }
  // One of the items that are right; nullptr when there is none.
  template <class T>
  const T* one_of(std::span<const T> items, auto&& right) {
    std::size_t count = 0;
    for (const T& item : items) count += right(item) ? 1 : 0;
    if (count == 0) return nullptr;
    std::size_t skip = below(count);
    for (const T& item : items)
      if (right(item) && skip-- == 0) return &item;
    return nullptr;
  }
  template <class T>
  T weighted(std::initializer_list<std::pair<T, std::size_t>> choices) {
    std::size_t total = 0;
    for (const auto& [choice, weight] : choices) total += weight;
    std::size_t at = below(total);
    for (const auto& [choice, weight] : choices) {
      if (at < weight) return choice;
      at -= weight;
    }
    return choices.begin()->first;
  }

 private:
  RandomStream stream_;
  std::uint64_t element_ = 0;
};

Determiner draw_determiner(Draw& draw, const Noun& noun, bool as_subject, bool definite) {
  using enum Determiner;
  if ((noun.kind & kind::kin) != 0) return draw.weighted<Determiner>({{my, 3}, {our, 1}, {his, 2}});
  if ((noun.kind & (kind::study | kind::music | kind::idea)) != 0) return bare;
  const bool counted = !noun.counter.empty() && !definite;
  if (noun.plural.empty())
    return draw.weighted<Determiner>({{bare, as_subject ? 0 : 6}, {the, 3}, {this_one, 1}, {my, 1}, {count, counted ? 4 : 0}});
  const bool many = (noun.kind & kind::alive) != 0;  // 들 is for those who live
  return draw.weighted<Determiner>({{bare, as_subject ? 0 : 4},
                                    {the, 8},
                                    {the_plural, many ? 3 : 0},
                                    {this_one, 2},
                                    {that_one, 1},
                                    {my, 2},
                                    {our, 1},
                                    {his, 1},
                                    {count, counted ? 4 : 0}});
}

// definite: without number and adjective.
Phrase draw_phrase(Draw& draw, const Noun& noun, bool as_subject, bool definite) {
  Phrase phrase{.determiner = draw_determiner(draw, noun, as_subject, definite), .noun = &noun};
  if (phrase.determiner == Determiner::count && !draw.percent(40))
    phrase.number = static_cast<std::int64_t>(2 + draw.below(numbers().size() - 1));
  if (!definite && draw.percent(20))
    phrase.adjective = draw.one_of(adjectives(), [&](const Adjective& a) { return (a.nouns & noun.kind) != 0; });
  return phrase;
}

Phrase draw_pronoun(Draw& draw, const Pronoun* other) {
  return {.determiner = Determiner::pronoun,
          .pronoun = draw.one_of(pronouns(), [&](const Pronoun& p) { return other == nullptr || p.group != other->group; })};
}

Phrase draw_subject(Draw& draw, Kinds kinds, bool definite) {
  if ((kinds & kind::person) != 0 && draw.percent(40)) return draw_pronoun(draw, nullptr);
  return draw_phrase(draw, *draw.one_of(nouns(), [&](const Noun& n) { return (n.kind & kinds) != 0; }), true, definite);
}

Phrase draw_object(Draw& draw, Kinds kinds, const Phrase& subject) {
  if ((kinds & kind::person) != 0 && draw.percent(15)) return draw_pronoun(draw, subject.pronoun);
  return draw_phrase(draw, *draw.one_of(nouns(), [&](const Noun& n) { return (n.kind & kinds) != 0 && &n != subject.noun; }), false, false);
}

}  // namespace

Clause draw_clause(std::uint32_t number) {
  using Pattern = Clause::Pattern;
  Draw draw(number);
  Clause c{
      .pattern = draw.weighted<Pattern>({{Pattern::action, 14}, {Pattern::motion, 3}, {Pattern::existence, 1}, {Pattern::quality, 2}})};
  c.tense = draw.weighted<Tense>({{Tense::past, 2}, {Tense::present, 2}, {Tense::future, 1}});
  c.polarity = draw.weighted<Polarity>({{Polarity::positive, 7}, {Polarity::negative, 2}, {Polarity::contracted, 1}});
  switch (c.pattern) {
    case Pattern::action: {
      const bool transitive = draw.percent(85);
      c.verb = &draw.one_of(transitive ? transitive_verbs() : intransitive_verbs());
      c.subject = draw_subject(draw, c.verb->subjects, false);
      if (transitive) c.object = draw_object(draw, c.verb->objects, c.subject);
      if (c.verb->past.empty() && c.tense == Tense::past && c.polarity == Polarity::positive) c.tense = Tense::present;
      if (c.verb->action && draw.percent(transitive ? 25 : 60)) c.place = &draw.one_of(places());
      break;
    }
    case Pattern::motion:
      c.verb = &draw.one_of(motion_verbs());
      c.subject = draw_subject(draw, c.verb->subjects, false);
      c.place = &draw.one_of(places());
      break;
    case Pattern::existence:
      c.subject = draw_subject(draw, kind::alive, false);
      c.place = &draw.one_of(places());
      break;
    case Pattern::quality:
      c.quality = draw.one_of(adjectives(), [](const Adjective& a) { return !a.stem.text.empty(); });
      c.subject = draw_subject(draw, c.quality->nouns, true);
      break;
  }
  if (c.verb == nullptr && c.polarity == Polarity::contracted) c.polarity = Polarity::negative;  // of "to be" only the full form
  if (c.verb != nullptr && c.verb->action && draw.percent(40))
    c.time = draw.one_of(times(), [&](const Time& t) { return t.tense == c.tense; });
  return c;
}

}  // namespace transformer::toy
