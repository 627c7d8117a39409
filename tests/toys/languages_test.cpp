// Made-up languages that counting words does not solve.
#include "toys/shared/languages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "support/op_check.h"
#include "toys/shared/labels.h"
#include "toys/words_of.h"

namespace transformer {
namespace {

using test::words_of;

bool balanced(const std::string& text) {
  std::string stack;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') stack.push_back(c);
    const std::string_view closing = ")]}";
    if (const auto kind = closing.find(c); kind != std::string_view::npos) {
      if (stack.empty() || stack.back() != "([{"[kind]) return false;
      stack.pop_back();
    }
  }
  return stack.empty();
}

TEST(ToyLanguages, BracketsAreLabelledRightlyAndAllDifferent) {
  const auto texts = bracket_texts(2000);
  ASSERT_EQ(texts.size(), 2000U);
  std::set<std::string> seen;
  for (const BracketText& t : texts) {
    EXPECT_EQ(balanced(t.text), t.balanced) << t.text;
    seen.insert(t.text);
  }
  EXPECT_EQ(seen.size(), texts.size());
  EXPECT_EQ(bracket_texts(100)[99].text, texts[99].text) << "a longer list begins with the shorter one";
}

// Each unbalanced text has the words of a balanced one: whatever is computed from the counts of words is right for half of the texts.
// A classifier by counts (naive Bayes) shows it.
TEST(ToyLanguages, NoBagOfWordsTellsBracketsApart) {
  const auto texts = bracket_texts(4000);
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    auto right = words_of(texts[i].text), wrong = words_of(texts[i + 1].text);
    std::sort(right.begin(), right.end()), std::sort(wrong.begin(), wrong.end());
    ASSERT_EQ(right, wrong);
  }
  std::map<std::string, double> counts[2];
  double totals[2] = {};
  for (std::size_t i = 0; i < 3000; ++i)
    for (const std::string& word : words_of(texts[i].text)) ++counts[texts[i].balanced][word], ++totals[texts[i].balanced];
  int told = 0;
  for (std::size_t i = 3000; i < texts.size(); ++i) {
    double score = 0.0;
    for (const std::string& word : words_of(texts[i].text))
      score += std::log((counts[1][word] + 1) / totals[1]) - std::log((counts[0][word] + 1) / totals[0]);
    told += (score >= 0.0) == texts[i].balanced ? 1 : 0;
  }
  EXPECT_EQ(told, 500) << "of 1000";
}

// Every word of a song is known from the others, but which of them it is the counts do not say.
TEST(ToyLanguages, SongsRepeat) {
  const auto songs = song_texts(500);
  ASSERT_EQ(songs.size(), 500U);
  EXPECT_EQ((std::set<std::string>(songs.begin(), songs.end()).size()), songs.size());
  double guessed = 0.0, all = 0.0;
  for (const std::string& song : songs) {
    const auto words = words_of(song);
    std::map<std::string, double> counts;
    for (const std::string& word : words) ++counts[word];
    const std::size_t period = counts.size();
    ASSERT_TRUE(period >= 2 && period <= 4 && words.size() >= 24) << song;
    for (std::size_t i = period; i < words.size(); ++i) ASSERT_EQ(words[i], words[i - period]) << song;
    // The best that counts can do: the word that is most often there.
    double most = 0.0;
    for (const auto& [word, count] : counts) most = std::max(most, count);
    guessed += most, all += static_cast<double>(words.size());
  }
  EXPECT_LT(guessed / all, 0.4);
}

// A name alone does not tell what it is: all are both, about as often.
TEST(ToyLanguages, NamesOfPeopleAndPlaces) {
  const auto texts = name_texts(2000);
  ASSERT_EQ(texts.size(), 2000U);
  std::map<std::string, std::map<std::string, int>> tags;
  for (const TaggedText& t : texts) {
    ASSERT_EQ(t.words.size(), t.tags.size());
    for (std::size_t i = 0; i < t.words.size(); ++i) ++tags[t.words[i]][t.tags[i]];
  }
  for (const auto& [word, counts] : tags)
    if (counts.size() > 1) {
      ASSERT_EQ(counts.size(), 4U) << word;
      EXPECT_LT(std::abs(counts.at("B-PER") - counts.at("B-LOC")), counts.at("B-PER") / 2) << word;
    }
  EXPECT_EQ(name_texts(10)[9].words, texts[9].words);
}

TEST(ToyLanguages, SwitchesAndShopping) {
  std::set<std::string> seen;
  for (const SwitchText& t : switch_texts(2000)) {
    std::set<std::string> on;
    const auto words = words_of(t.text);
    for (std::size_t i = 0; i + 1 < words.size(); i += 2) words[i + 1] == "on" ? (void)on.insert(words[i]) : (void)on.erase(words[i]);
    EXPECT_EQ(t.on, std::vector<std::string>(on.begin(), on.end())) << t.text;
    EXPECT_TRUE(seen.insert(t.text).second);
  }
  const std::map<std::string, int> price{{"apple", 1}, {"bread", 2}, {"milk", 3}, {"rice", 4}, {"tea", 5}, {"honey", 7}},
      number{{"one", 1}, {"two", 2}, {"three", 3}, {"four", 4}};
  for (const ShoppingText& t : shopping_texts(2000)) {
    const auto words = words_of(t.text);
    int total = 0;
    for (std::size_t i = 0; i < words.size(); i += 2) total += number.at(words[i]) * price.at(words[i + 1]);
    EXPECT_EQ(t.total, total / 10.0) << t.text;
    EXPECT_TRUE(seen.insert(t.text).second);
  }
}

TEST(ToyLanguages, NotTooMany) {
  test::expect_error([] { bracket_texts(-1); }, {"-1 texts"});
  test::expect_error([] { song_texts(2'000'000); }, {"up to 1000000"});
}

}  // namespace
}  // namespace transformer
