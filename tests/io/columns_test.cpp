#include "io/shared/columns.h"

#include <gtest/gtest.h>

#include "transformer/predict/confusion.h"

namespace transformer::test {
namespace {

TEST(Columns, LettersOfEastAsiaTakeTwo) {
  EXPECT_EQ(columns_of("cat"), 3);
  EXPECT_EQ(columns_of("고양이"), 6);
  EXPECT_EQ(columns_of("é"), 1);
  EXPECT_EQ(columns_of("e\u0301"), 1);  // an accent that stands on its own
  EXPECT_EQ(columns_of("ＡＢ"), 4);
  EXPECT_EQ(padded("개", 4), "개  ");
  EXPECT_EQ(padded("개", 4, true), "  개");
  EXPECT_EQ(padded("고양이", 4), "고양이");
}

// Every line of a table ends at the same column.
TEST(Columns, TablesWithKoreanNamesAlign) {
  ConfusionMatrix matrix({"긍정", "부정적인", "neutral"});
  matrix.add(0, 0), matrix.add(1, 2), matrix.add(2, 2);
  const std::string table = matrix.table("texts");
  std::vector<int> first, second;
  bool below = false;
  for (std::size_t at = table.find("\nclass") + 1, end = 0; (end = table.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = table.substr(at, end - at);
    below |= line.empty();
    if (line.find_first_of("0123456789") != std::string::npos || line.starts_with(" ") || (!below && line.starts_with("class")))
      (below ? second : first).push_back(columns_of(line));
  }
  ASSERT_EQ(first.size(), 4U) << table;
  ASSERT_EQ(second.size(), 4U) << table;
  for (const auto* part : {&first, &second})
    for (const int columns : *part) EXPECT_EQ(columns, part->front()) << table;
}

}  // namespace
}  // namespace transformer::test
