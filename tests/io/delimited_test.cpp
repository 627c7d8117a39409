#include "transformer/io/delimited.h"

#include <sstream>

#include "support/op_check.h"

namespace transformer {
namespace {

// A record a string: its line, and its cells between bars.
std::vector<std::string> rows(const std::string& text, const DelimitedOptions& options = {}) {
  std::istringstream in(text);
  DelimitedReader reader([&](std::string& line) { return static_cast<bool>(std::getline(in, line)); }, "x.csv", options);
  std::vector<std::string> out;
  for (std::vector<std::string> cells; reader.next(cells);) {
    std::string row = std::to_string(reader.line());
    for (const std::string& cell : cells) row += "|" + cell;
    out.push_back(row);
  }
  return out;
}
using Rows = std::vector<std::string>;
const DelimitedOptions tab{.delimiter = "tab"};

TEST(Delimited, AsPandasAndPythonWriteIt) {
  // csv.writer, and to_csv(index=False): quotes where they must be, doubled inside, line ends kept.
  EXPECT_EQ(rows("text,label\n\"a, b\",pos\n\"He said \"\"no\"\".\",neg\n\"two\nlines\",pos\nplain,neg\n"),
            Rows({"1|text|label", "2|a, b|pos", "3|He said \"no\".|neg", "4|two\nlines|pos", "6|plain|neg"}));
  // QUOTE_ALL, with the line ends of Windows.
  EXPECT_EQ(rows("\"text\",\"label\"\r\n\"a\",\"b\"\r\n\"two\r\nlines\",\"\"\r\n"), Rows({"1|text|label", "2|a|b", "3|two\nlines|"}));
  EXPECT_EQ(rows("a,b,\n,,\n"), Rows({"1|a|b|", "2|||"}));
  EXPECT_EQ(rows("a,\"b\" c\n", {.delimiter = ","}), Rows({"1|a|bc"}));  // spaces behind a quote are no text
  EXPECT_EQ(rows(" a , b\n", {.delimiter = ","}), Rows({"1| a | b"}));
  EXPECT_EQ(rows(" a , \"b \"\n\n , \n", {.delimiter = ",", .numbers = true}), Rows({"1|a|b ", "3||"}));
}

TEST(Delimited, TheDelimiterIsFound) {
  EXPECT_EQ(rows("text;label\n\"a; b, c\";pos\nx, y;neg\n"), Rows({"1|text|label", "2|a; b, c|pos", "3|x, y|neg"}));  // Excel in Europe
  EXPECT_EQ(rows("1,5;2,5\n1,0;3,5\n"), Rows({"1|1,5|2,5", "2|1,0|3,5"}));
  EXPECT_EQ(rows("a; b; c,pos\nd,neg\n"), Rows({"1|a; b; c|pos", "2|d|neg"}));
  EXPECT_EQ(rows("a|b\n1|2\n"), Rows({"1|a|b", "2|1|2"}));
  EXPECT_EQ(rows("a\tb, c\nd\te\n"), Rows({"1|a|b, c", "2|d|e"}));
  EXPECT_EQ(rows("one\n"), Rows({"1|one"}));
  EXPECT_EQ(delimiter_of("a.csv.gz"), "auto");
  EXPECT_EQ(delimiter_of("a.txt"), "tab");
  EXPECT_EQ(delimiter_of("a.txt", ";"), ";");
}

// Between tabs a quote is a sign like others, unless it can only be one that a writer has put.
TEST(Delimited, QuotesOfTextsBetweenTabs) {
  const auto same = [](const std::string& line) { EXPECT_EQ(rows(line + "\nx\ty\n", tab).size(), 2u) << line; };
  EXPECT_EQ(rows("\"Oh no\tneg\nhe said \"go\"\tpos\n", tab), Rows({"1|\"Oh no|neg", "2|he said \"go\"|pos"}));
  EXPECT_EQ(rows("\"A\" is good\tpos\n\"Great\"\tpos\nx\"\ty\n", tab), Rows({"1|\"A\" is good|pos", "2|\"Great\"|pos", "3|x\"|y"}));
  EXPECT_EQ(rows("\"Oh\tneg\nno\"\tpos\n", tab), Rows({"1|\"Oh|neg", "2|no\"|pos"}));  // each line is a record
  EXPECT_EQ(rows("a\tb\n\"Oh\tno\"\n", tab), Rows({"1|a|b", "2|\"Oh|no\""}));
  same("\"\tneg");
  same("\"\"\tneg");
  // to_csv(sep="\t"): quotes where they must be.
  EXPECT_EQ(rows("text\tlabel\n\"He said \"\"no\"\".\"\tneg\n\"a\tb\"\tpos\n\"two\nlines\"\tpos\n", tab),
            Rows({"1|text|label", "2|He said \"no\".|neg", "3|a\tb|pos", "4|two\nlines|pos"}));
  EXPECT_EQ(rows("label\ttext\nneg\t\"two\nlines\"\nid\t\"x\n\ny\"\n", tab), Rows({"1|label|text", "2|neg|two\nlines", "4|id|x\n\ny"}));
  EXPECT_EQ(rows("id\ttext\tlabel\n1\t\"two\nlines\"\tneg\n", tab), Rows({"1|id|text|label", "2|1|two\nlines|neg"}));
  // QUOTE_ALL and QUOTE_NONNUMERIC
  EXPECT_EQ(rows("\"text\"\t\"label\"\n\"Great\"\t\"1\"\n\"a\"\t2\n", tab), Rows({"1|text|label", "2|Great|1", "3|a|2"}));
  EXPECT_EQ(rows("\"Great\"\t1\n\"a\"\t2\n", tab), Rows({"1|Great|1", "2|a|2"}));
  EXPECT_EQ(rows("\"open\tneg", tab), Rows({"1|\"open|neg"}));
  EXPECT_EQ(rows("a\t\"open\n\nb\tc", tab), Rows({"1|a|\"open", "2|", "3|b|c"}));  // what was looked at is given back, empty lines too
}

// A source that has no more for now: lines that a person types.
TEST(Delimited, LinesThatComeOneByOne) {
  std::deque<std::string> typed;
  DelimitedReader reader(
      [&](std::string& line) {
    if (typed.empty()) return false;
    line = typed.front();
    typed.pop_front();
    return true;
      },
      "-", tab);
  std::vector<std::string> cells;
  for (const std::string line : {"\"a\tb", "c\td", "\"\"\"e\"\"\"\tf"}) {
    typed = {line};
    ASSERT_TRUE(reader.next(cells));
    EXPECT_EQ(cells.size(), 2u);
    EXPECT_FALSE(reader.next(cells));
  }
  EXPECT_EQ(reader.line(), 3);
}

TEST(Delimited, WhatCannotBeRead) {
  test::expect_error([] { rows("a,b\nc,\"d\ne\n"); }, {"x.csv", "line 2", "does not end"});
  test::expect_error([] { rows("a,b\n", {.delimiter = "ab"}); }, {"delimiter is 'ab'"});
  test::expect_error(
      [] {
    rows(
        std::string("\xFF\xFE"
                    "a\0,\0b\0\n\0",
                    10));
      },
      {"UTF-16", "UTF-8"});
  test::expect_error([] { rows(std::string("a\0,\0b\0\n\0", 8)); }, {"line 1", "zero bytes", "UTF-16"});
}

}  // namespace
}  // namespace transformer
