#include "toys/corpus.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/shared/unicode.h"
#include "support/op_check.h"
#include "toys/grammar.h"
#include "toys/words_of.h"

namespace transformer::test {
namespace {

const ToyCorpus& corpus() {
  static const ToyCorpus all;
  return all;
}

TEST(ToyCorpus, SentencesOfTheDocuments) {
  const std::vector<ToyPair> expected = {
      {"I like money", "나는 돈을 좋아한다"},
      {"I love cats", "나는 고양이를 사랑한다"},
      {"I go to school", "나는 학교에 간다"},
      {"The cat caught the mouse", "고양이가 쥐를 잡았다"},
      {"The mouse caught the cat", "쥐가 고양이를 잡았다"},
      {"I study Transformer", "나는 Transformer를 공부한다"},
  };
  EXPECT_EQ(documents_sentences(), expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(corpus().pair(static_cast<std::int64_t>(i)), expected[i]);
    EXPECT_TRUE(corpus().held_out(static_cast<std::int64_t>(i)));
  }
}

TEST(ToyCorpus, AllSentencesAreDifferentAndTheSameEveryTime) {
  ASSERT_EQ(corpus().size(), 100'000);
  std::unordered_set<std::string> sources;
  for (std::int64_t i = 0; i < corpus().size(); ++i) EXPECT_TRUE(sources.insert(corpus().pair(i).source).second) << corpus().pair(i).source;
  const ToyCorpus small(1000);
  ASSERT_EQ(small.size(), 1000);
  for (std::int64_t i = 0; i < small.size(); ++i) {
    EXPECT_EQ(small.pair(i), corpus().pair(i));
    EXPECT_EQ(small.held_out(i), corpus().held_out(i));
  }
  EXPECT_EQ(small.training().size() + small.testing().size(), 1000U);
  EXPECT_EQ(ToyCorpus(3).size(), 3);
  EXPECT_EQ(ToyCorpus(0).size(), 0);
}

// Over everything that is drawn, repetitions and all: one English sentence, one translation.
TEST(ToyCorpus, TranslationIsAFunction) {
  std::unordered_map<std::string, std::string> translation;
  for (std::uint32_t draw = 0; draw < 100'000; ++draw) {
    const ToyPair pair = translate(toy::draw_clause(draw));
    const auto [known, added] = translation.emplace(pair.source, pair.target);
    EXPECT_EQ(known->second, pair.target) << pair.source;
  }
  EXPECT_GT(translation.size(), 70'000U);
}

// Who does what with what is new in the held-out sentences; their words are not.
TEST(ToyCorpus, HeldOutCombinationsOfKnownWords) {
  std::set<std::string> english, korean;
  std::unordered_map<std::string, bool> combinations;
  std::int64_t held_out = 0;
  for (const ToyPair& pair : corpus().training()) {
    for (const std::string& word : words_of(pair.source)) english.insert(word);
    for (const std::string& word : words_of(pair.target)) korean.insert(word);
  }
  for (const ToyPair& pair : corpus().testing()) {
    for (const std::string& word : words_of(pair.source)) EXPECT_TRUE(english.contains(word)) << word << " in " << pair.source;
    for (const std::string& word : words_of(pair.target)) EXPECT_TRUE(korean.contains(word)) << word << " in " << pair.target;
    ++held_out;
  }
  EXPECT_GT(held_out, 3000);
  EXPECT_LT(held_out, 7000);

  std::unordered_map<std::string, std::int64_t> index;
  for (std::int64_t i = 0; i < corpus().size(); ++i) index.emplace(corpus().pair(i).source, i);
  for (std::uint32_t draw = 0; draw < 20'000; ++draw) {
    const toy::Clause clause = toy::draw_clause(draw);
    const auto at = index.find(translate(clause).source);
    if (at == index.end()) continue;
    const bool held = corpus().held_out(at->second);
    EXPECT_EQ(combinations.emplace(combination(clause), held).first->second, held) << combination(clause);
  }
}

TEST(ToyCorpus, Examples) {
  const std::vector<ToyPair> examples = {
      {"Six children came to the park yesterday", "아이 여섯 명이 어제 공원에 왔다"},
      {"You drank a cup of coffee", "너는 커피 한 잔을 마셨다"},
      {"They do not drink tea these days", "그들은 요즘 차를 마시지 않는다"},
      {"The dogs are not at home", "개들이 집에 없다"},
      {"The camera was not light", "카메라가 가볍지 않았다"},
      {"This old man finds my father", "이 늙은 남자가 내 아버지를 찾는다"},
      {"The doctors threw my old ball", "의사들이 내 낡은 공을 던졌다"},
      {"You won't open the box tomorrow", "너는 내일 상자를 안 열 것이다"},
      {"Our mother doesn't listen to music at home", "우리 어머니가 집에서 음악을 안 듣는다"},
      {"Seven boys will write the new poem in the restaurant next week", "소년 일곱 명이 다음 주에 식당에서 새 시를 쓸 것이다"},
  };
  std::unordered_map<std::string, std::string> all;
  for (std::int64_t i = 0; i < corpus().size(); ++i) all.emplace(corpus().pair(i).source, corpus().pair(i).target);
  for (const ToyPair& example : examples) EXPECT_EQ(all[example.source], example.target) << example.source;
}

// Every verb and adjective by hand: present, past, future, full and short negation.
struct Forms {
  std::string present, past, future, negative, contracted;
  bool operator==(const Forms&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Forms& f) {
    return out << f.present << ", " << f.past << ", " << f.future << ", " << f.negative << ", " << f.contracted;
  }
};

// 나는 X → X.
std::string predicate(toy::Clause clause, toy::Tense tense, toy::Polarity polarity) {
  clause.subject = {.determiner = toy::Determiner::pronoun, .pronoun = &toy::pronoun("I")};
  clause.tense = tense;
  clause.polarity = polarity;
  const std::string korean = translate(clause).target, topic = "나는 ";
  EXPECT_TRUE(korean.starts_with(topic)) << korean;
  return korean.substr(topic.size());
}

Forms forms_of(const toy::Clause& clause) {
  using enum toy::Tense;
  using enum toy::Polarity;
  const bool verb = clause.verb != nullptr;
  return {predicate(clause, present, positive), predicate(clause, past, positive), predicate(clause, future, positive),
          predicate(clause, present, negative), verb ? predicate(clause, present, contracted) : ""};
}

void expect_forms(std::span<const toy::Verb> verbs, const std::map<std::string, Forms>& table) {
  for (const toy::Verb& verb : verbs) {
    const auto expected = table.find(std::string(verb.english));
    ASSERT_NE(expected, table.end()) << verb.english << " is not in the table";
    EXPECT_EQ(forms_of({.verb = &verb}), expected->second) << verb.english;
  }
  EXPECT_EQ(verbs.size(), table.size());
}

TEST(ToyCorpus, ConjugationOfTransitiveVerbs) {
  expect_forms(toy::transitive_verbs(),
               {
                   {"like", {"좋아한다", "좋아했다", "좋아할 것이다", "좋아하지 않는다", "안 좋아한다"}},
                   {"love", {"사랑한다", "사랑했다", "사랑할 것이다", "사랑하지 않는다", "사랑 안 한다"}},
                   {"hate", {"싫어한다", "싫어했다", "싫어할 것이다", "싫어하지 않는다", "안 싫어한다"}},
                   {"want", {"원한다", "원했다", "원할 것이다", "원하지 않는다", "안 원한다"}},
                   {"remember", {"기억한다", "기억했다", "기억할 것이다", "기억하지 않는다", "기억 안 한다"}},
                   {"miss", {"그리워한다", "그리워했다", "그리워할 것이다", "그리워하지 않는다", "안 그리워한다"}},
                   {"respect", {"존경한다", "존경했다", "존경할 것이다", "존경하지 않는다", "존경 안 한다"}},
                   {"trust", {"믿는다", "믿었다", "믿을 것이다", "믿지 않는다", "안 믿는다"}},
                   {"see", {"본다", "봤다", "볼 것이다", "보지 않는다", "안 본다"}},
                   {"find", {"찾는다", "찾았다", "찾을 것이다", "찾지 않는다", "안 찾는다"}},
                   {"catch", {"잡는다", "잡았다", "잡을 것이다", "잡지 않는다", "안 잡는다"}},
                   {"chase", {"쫓는다", "쫓았다", "쫓을 것이다", "쫓지 않는다", "안 쫓는다"}},
                   {"follow", {"따른다", "따랐다", "따를 것이다", "따르지 않는다", "안 따른다"}},
                   {"raise", {"기른다", "길렀다", "기를 것이다", "기르지 않는다", "안 기른다"}},
                   {"draw", {"그린다", "그렸다", "그릴 것이다", "그리지 않는다", "안 그린다"}},
                   {"eat", {"먹는다", "먹었다", "먹을 것이다", "먹지 않는다", "안 먹는다"}},
                   {"wash", {"씻는다", "씻었다", "씻을 것이다", "씻지 않는다", "안 씻는다"}},
                   {"drink", {"마신다", "마셨다", "마실 것이다", "마시지 않는다", "안 마신다"}},
                   {"buy", {"산다", "샀다", "살 것이다", "사지 않는다", "안 산다"}},
                   {"sell", {"판다", "팔았다", "팔 것이다", "팔지 않는다", "안 판다"}},
                   {"make", {"만든다", "만들었다", "만들 것이다", "만들지 않는다", "안 만든다"}},
                   {"lose", {"잃어버린다", "잃어버렸다", "잃어버릴 것이다", "잃어버리지 않는다", "안 잃어버린다"}},
                   {"choose", {"고른다", "골랐다", "고를 것이다", "고르지 않는다", "안 고른다"}},
                   {"read", {"읽는다", "읽었다", "읽을 것이다", "읽지 않는다", "안 읽는다"}},
                   {"write", {"쓴다", "썼다", "쓸 것이다", "쓰지 않는다", "안 쓴다"}},
                   {"study", {"공부한다", "공부했다", "공부할 것이다", "공부하지 않는다", "공부 안 한다"}},
                   {"learn", {"배운다", "배웠다", "배울 것이다", "배우지 않는다", "안 배운다"}},
                   {"teach", {"가르친다", "가르쳤다", "가르칠 것이다", "가르치지 않는다", "안 가르친다"}},
                   {"listen to", {"듣는다", "들었다", "들을 것이다", "듣지 않는다", "안 듣는다"}},
                   {"sing", {"부른다", "불렀다", "부를 것이다", "부르지 않는다", "안 부른다"}},
                   {"call", {"부른다", "불렀다", "부를 것이다", "부르지 않는다", "안 부른다"}},
                   {"meet", {"만난다", "만났다", "만날 것이다", "만나지 않는다", "안 만난다"}},
                   {"help", {"돕는다", "도왔다", "도울 것이다", "돕지 않는다", "안 돕는다"}},
                   {"wait for", {"기다린다", "기다렸다", "기다릴 것이다", "기다리지 않는다", "안 기다린다"}},
                   {"open", {"연다", "열었다", "열 것이다", "열지 않는다", "안 연다"}},
                   {"close", {"닫는다", "닫았다", "닫을 것이다", "닫지 않는다", "안 닫는다"}},
                   {"build", {"짓는다", "지었다", "지을 것이다", "짓지 않는다", "안 짓는다"}},
                   {"push", {"민다", "밀었다", "밀 것이다", "밀지 않는다", "안 민다"}},
                   {"ride", {"탄다", "탔다", "탈 것이다", "타지 않는다", "안 탄다"}},
                   {"throw", {"던진다", "던졌다", "던질 것이다", "던지지 않는다", "안 던진다"}},
                   {"kick", {"찬다", "찼다", "찰 것이다", "차지 않는다", "안 찬다"}},
                   {"plant", {"심는다", "심었다", "심을 것이다", "심지 않는다", "안 심는다"}},
               });
}

TEST(ToyCorpus, ConjugationOfIntransitiveVerbs) {
  expect_forms(toy::intransitive_verbs(),
               {
                   {"sleep", {"잔다", "잤다", "잘 것이다", "자지 않는다", "안 잔다"}},
                   {"laugh", {"웃는다", "웃었다", "웃을 것이다", "웃지 않는다", "안 웃는다"}},
                   {"cry", {"운다", "울었다", "울 것이다", "울지 않는다", "안 운다"}},
                   {"walk", {"걷는다", "걸었다", "걸을 것이다", "걷지 않는다", "안 걷는다"}},
                   {"run", {"달린다", "달렸다", "달릴 것이다", "달리지 않는다", "안 달린다"}},
                   {"swim", {"수영한다", "수영했다", "수영할 것이다", "수영하지 않는다", "수영 안 한다"}},
                   {"dance", {"춤춘다", "춤췄다", "춤출 것이다", "춤추지 않는다", "춤 안 춘다"}},
                   {"work", {"일한다", "일했다", "일할 것이다", "일하지 않는다", "일 안 한다"}},
                   {"rest", {"쉰다", "쉬었다", "쉴 것이다", "쉬지 않는다", "안 쉰다"}},
                   {"play", {"논다", "놀았다", "놀 것이다", "놀지 않는다", "안 논다"}},
               });
  expect_forms(toy::motion_verbs(),
               {
                   {"go", {"간다", "갔다", "갈 것이다", "가지 않는다", "안 간다"}},
                   {"come", {"온다", "왔다", "올 것이다", "오지 않는다", "안 온다"}},
                   {"return", {"돌아간다", "돌아갔다", "돌아갈 것이다", "돌아가지 않는다", "안 돌아간다"}},
                   {"walk", {"걸어간다", "걸어갔다", "걸어갈 것이다", "걸어가지 않는다", "안 걸어간다"}},
                   {"run", {"달려간다", "달려갔다", "달려갈 것이다", "달려가지 않는다", "안 달려간다"}},
               });
}

TEST(ToyCorpus, ConjugationOfAdjectives) {
  // The form before a noun stands in the place of the short negation.
  const std::map<std::string, Forms> table = {
      {"big", {"크다", "컸다", "클 것이다", "크지 않다", "큰"}},
      {"small", {"작다", "작았다", "작을 것이다", "작지 않다", "작은"}},
      {"pretty", {"예쁘다", "예뻤다", "예쁠 것이다", "예쁘지 않다", "예쁜"}},
      {"cute", {"귀엽다", "귀여웠다", "귀여울 것이다", "귀엽지 않다", "귀여운"}},
      {"fast", {"빠르다", "빨랐다", "빠를 것이다", "빠르지 않다", "빠른"}},
      {"strong", {"강하다", "강했다", "강할 것이다", "강하지 않다", "강한"}},
      {"brave", {"용감하다", "용감했다", "용감할 것이다", "용감하지 않다", "용감한"}},
      {"kind", {"친절하다", "친절했다", "친절할 것이다", "친절하지 않다", "친절한"}},
      {"diligent", {"부지런하다", "부지런했다", "부지런할 것이다", "부지런하지 않다", "부지런한"}},
      {"happy", {"행복하다", "행복했다", "행복할 것이다", "행복하지 않다", "행복한"}},
      {"busy", {"바쁘다", "바빴다", "바쁠 것이다", "바쁘지 않다", "바쁜"}},
      {"sad", {"슬프다", "슬펐다", "슬플 것이다", "슬프지 않다", "슬픈"}},
      {"hungry", {"배고프다", "배고팠다", "배고플 것이다", "배고프지 않다", "배고픈"}},
      {"heavy", {"무겁다", "무거웠다", "무거울 것이다", "무겁지 않다", "무거운"}},
      {"light", {"가볍다", "가벼웠다", "가벼울 것이다", "가볍지 않다", "가벼운"}},
      {"expensive", {"비싸다", "비쌌다", "비쌀 것이다", "비싸지 않다", "비싼"}},
      {"cheap", {"싸다", "쌌다", "쌀 것이다", "싸지 않다", "싼"}},
      {"delicious", {"맛있다", "맛있었다", "맛있을 것이다", "맛있지 않다", "맛있는"}},
  };
  std::size_t predicative = 0;
  for (const toy::Adjective& adjective : toy::adjectives()) {
    if (adjective.stem.text.empty()) continue;
    ++predicative;
    const auto expected = table.find(std::string(adjective.english));
    ASSERT_NE(expected, table.end()) << adjective.english << " is not in the table";
    Forms forms = forms_of({.pattern = toy::Clause::Pattern::quality, .quality = &adjective});
    forms.contracted = attributive(adjective.stem);
    EXPECT_EQ(forms, expected->second) << adjective.english;
  }
  EXPECT_EQ(predicative, table.size());
  using enum toy::Tense;
  const toy::Clause at_home{.pattern = toy::Clause::Pattern::existence, .place = &toy::place("home")};
  EXPECT_EQ(predicate(at_home, present, toy::Polarity::positive), "집에 있다");
  EXPECT_EQ(predicate(at_home, past, toy::Polarity::positive), "집에 있었다");
  EXPECT_EQ(predicate(at_home, future, toy::Polarity::positive), "집에 있을 것이다");
  EXPECT_EQ(predicate(at_home, present, toy::Polarity::negative), "집에 없다");
  EXPECT_EQ(predicate(at_home, past, toy::Polarity::negative), "집에 없었다");
  EXPECT_EQ(predicate(at_home, future, toy::Polarity::negative), "집에 없을 것이다");
}

// Every noun, counter, place and pronoun takes the particle that its final consonant asks for.
TEST(ToyCorpus, ParticlesFollowTheFinalConsonant) {
  const auto ends_in_consonant = [](std::string_view word) { return (to_code_points(word).back() - 0xAC00) % 28 != 0; };
  const auto check = [&](std::string_view word, std::string_view sound) {
    const bool closed = ends_in_consonant(sound.empty() ? word : sound);
    EXPECT_EQ(with_topic(word, sound), std::string(word) + (closed ? "은" : "는"));
    EXPECT_EQ(with_subject(word, sound), std::string(word) + (closed ? "이" : "가"));
    EXPECT_EQ(with_object(word, sound), std::string(word) + (closed ? "을" : "를"));
  };
  for (const toy::Noun& noun : toy::nouns()) {
    check(noun.korean, noun.sound);
    if (!noun.counter.empty()) check(noun.counter, {});
    const toy::Clause clause{.subject = {.determiner = toy::Determiner::pronoun, .pronoun = &toy::pronoun("I")},
                             .verb = &toy::transitive_verbs().front(),
                             .object = toy::Phrase{.determiner = toy::Determiner::bare, .noun = &noun}};
    EXPECT_EQ(translate(clause).target, "나는 " + with_object(noun.korean, noun.sound) + " 좋아한다");
  }
  for (const toy::Pronoun& pronoun : toy::pronouns()) check(pronoun.korean, {});
  EXPECT_EQ(with_subject("고양이"), "고양이가");
  EXPECT_EQ(with_subject("곰"), "곰이");
  EXPECT_EQ(with_object("Transformer", "트랜스포머"), "Transformer를");
  EXPECT_EQ(with_object("Python", "파이썬"), "Python을");
  expect_error([] { with_topic("Transformer"); }, {"hangul", "Transformer"});
}

TEST(ToyCorpus, NamesWhatIsWrong) {
  expect_error([] { ToyCorpus(-1); }, {"toy corpus", "size is -1"});
  expect_error([] { ToyCorpus(1'000'001); }, {"toy corpus", "size is 1000001"});
  expect_error([] { corpus().pair(100'000); }, {"toy corpus", "index is 100000"});
  expect_error([] { corpus().held_out(-1); }, {"toy corpus", "index is -1"});
}

}  // namespace
}  // namespace transformer::test
