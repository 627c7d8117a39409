#include "transformer/predict/confusion.h"

#include "support/op_check.h"

namespace transformer {
namespace {

// Figures by hand: of 4 a's 3 are found, of 5 taken for a 3 are; …
TEST(ConfusionMatrix, Figures) {
  ConfusionMatrix m({"a", "b", "never"});
  for (int i = 0; i < 3; ++i) m.add(0, 0);
  m.add(0, 1);
  for (int i = 0; i < 2; ++i) m.add(1, 0);
  for (int i = 0; i < 4; ++i) m.add(1, 1);
  EXPECT_EQ(m.total(), 10);
  EXPECT_EQ(m.count(1, 0), 2);
  EXPECT_DOUBLE_EQ(m.accuracy(), 0.7);
  EXPECT_DOUBLE_EQ(m.precision(0), 3.0 / 5);
  EXPECT_DOUBLE_EQ(m.recall(0), 3.0 / 4);
  EXPECT_DOUBLE_EQ(m.f1(0), 2 * 0.6 * 0.75 / (0.6 + 0.75));
  EXPECT_DOUBLE_EQ(m.f1(2), 0.0);
  EXPECT_DOUBLE_EQ(m.macro_f1(), (m.f1(0) + m.f1(1)) / 2) << "a class that is not there and was not predicted does not count";
  const nlohmann::json json = m.to_json();
  EXPECT_EQ(json["confusion"], nlohmann::json::parse("[[3,1,0],[2,4,0],[0,0,0]]"));
  EXPECT_EQ(json["classes"][1]["name"], "b");
  test::expect_error([&] { m.add(0, 3); }, {"no class 3"});
}

TEST(ConfusionMatrix, Table) {
  ConfusionMatrix m({"ja", "nein"});
  m.add(0, 0), m.add(1, 0);
  EXPECT_EQ(m.table("texts"),
            "2 texts, accuracy 50.00 %, macro-F1 33.33 %\n"
            "\n"
            "class  precision  recall      F1    texts\n"
            "ja         50.00  100.00   66.67        1\n"
            "nein        0.00    0.00    0.00        1\n"
            "\n"
            "class  what it was taken for\n"
            "           ja    nein\n"
            "ja          1       0\n"
            "nein        1       0\n");
  EXPECT_EQ(ConfusionMatrix({"x"}).accuracy(), 0.0);
  const std::vector<std::string> many(30, "c");
  EXPECT_EQ(ConfusionMatrix(many).table("texts").find("taken for"), std::string::npos);
}

}  // namespace
}  // namespace transformer
