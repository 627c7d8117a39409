// Figures of labels, entities and numbers, beside those that scikit-learn and seqeval give for the same answers.
#include "transformer/predict/scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace transformer {
namespace {

using Strings = std::vector<std::string>;

double value(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, v] : metrics)
    if (key == name) return v;
  ADD_FAILURE() << name;
  return 0.0;
}

// a: 2 right of 3 found and 2 there; b: 0 of 0 and 1; c: 1 of 2 and 1; d: never
TEST(Scores, SeveralLabels) {
  LabelScores s;
  s.add("a", {.right = 2, .found = 3, .there = 2});
  s.add("b", {.right = 0, .found = 0, .there = 1});
  s.add("c", {.right = 1, .found = 2, .there = 1});
  s.add("d", {});
  s.add_samples(4, 1);
  EXPECT_NEAR(value(s.metrics(), "micro_f1"), 6.0 / 9.0, 1e-12);                      // 2·3 / (5 + 4)
  EXPECT_NEAR(value(s.metrics(), "macro_f1"), (0.8 + 0.0 + 2.0 / 3.0) / 3.0, 1e-12);  // d is neither there nor found
  EXPECT_EQ(value(s.metrics(), "accuracy"), 0.25);
  EXPECT_EQ(s.metrics().front().first, "micro_f1");
  EXPECT_NE(s.table("texts").find("4 texts, micro-F1 66.67 %, macro-F1 48.89 %, all labels right 25.00 %"), std::string::npos)
      << s.table("texts");
  EXPECT_EQ(s.to_json().at("labels").size(), 4U);
  EXPECT_EQ(value(LabelScores().metrics(), "macro_f1"), 0.0);
}

// seqeval's example: precision 0.5, recall 0.5, F1 0.5; accuracy 0.8.
TEST(Scores, Entities) {
  EntityScores s;
  s.add_text({"O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"}, {"O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"});
  s.add_text({"B-PER", "I-PER", "O"}, {"B-PER", "I-PER", "O"});
  const Metrics m = s.metrics();
  EXPECT_EQ(m.front().first, "f1");
  EXPECT_EQ(value(m, "f1"), 0.5);
  EXPECT_EQ(value(m, "precision"), 0.5);
  EXPECT_EQ(value(m, "recall"), 0.5);
  EXPECT_EQ(value(m, "accuracy"), 0.8);
  EXPECT_EQ(s.kinds().at("PER").f1(), 1.0);
  EXPECT_EQ(s.kinds().at("MISC").f1(), 0.0);
  EXPECT_NE(s.table("words").find("10 words, entities: F1 50.00 %"), std::string::npos) << s.table("words");
}

// scikit-learn's example of r2_score: 0.9486…, mean_absolute_error 0.5, mean_squared_error 0.375.
TEST(Scores, Numbers) {
  NumberScores s({"x"});
  const double truth[] = {3, -0.5, 2, 7}, said[] = {2.5, 0.0, 2, 8};
  for (int i = 0; i < 4; ++i) s.add(0, truth[i], said[i]);
  EXPECT_NEAR(s.r2(), 0.9486081370449679, 1e-12);
  EXPECT_NEAR(s.mse(), 0.375, 1e-12);
  EXPECT_NEAR(s.mae(), 0.5, 1e-12);
  EXPECT_NEAR(s.pearson(), 0.9848696184482703, 1e-12);
  EXPECT_EQ(s.table("texts").find("number"), std::string::npos);

  NumberScores two({"x", "y"});
  for (int i = 0; i < 4; ++i) two.add(0, truth[i], said[i]), two.add(1, 5.0, 5.0);
  EXPECT_NEAR(two.r2(), (0.9486081370449679 + 1.0) / 2.0, 1e-12) << "all equal, and told exactly";
  EXPECT_NEAR(two.pearson(), 0.9848696184482703 / 2.0, 1e-12);
  EXPECT_NE(two.table("texts").find("\ny "), std::string::npos);
  NumberScores same({"x"});
  same.add(0, 1.0, 2.0), same.add(0, 1.0, 3.0);
  EXPECT_EQ(same.r2(), 0.0);
  EXPECT_EQ(same.pearson(), 0.0);
}

TEST(Scores, OfAnyKindWithTheLoss) {
  const Evaluation e{.loss = 0.25, .scores = NumberScores({"x"})};
  EXPECT_EQ(e.metrics().front(), (std::pair<std::string, double>{"loss", 0.25}));
  EXPECT_EQ(e.metrics()[1].first, "r2");
  EXPECT_EQ(e.to_json().at("loss"), 0.25);
}

}  // namespace
}  // namespace transformer
