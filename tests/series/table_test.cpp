#include "transformer/series/table.h"

#include <gtest/gtest.h>

#include "series/lines_of.h"
#include "support/op_check.h"

namespace transformer::test {
namespace {

using Names = std::vector<std::string>;
using Values = std::vector<double>;

void expect_refusal(const std::string& text, const std::vector<std::string>& parts, const TableOptions& options = {}) {
  try {
    table_of(text, options);
    ADD_FAILURE() << "was read: " << text;
  } catch (const Error& e) {
    for (const std::string& part : parts) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what() << "\nlacks " << part;
  }
}

}  // namespace

TEST(Table, DatesChannelsAndNumbers) {
  const SeriesTable t = table_of("date,a,b\n2024-01-01,1,-2.5\n\n2024-01-02,1e3,+4\n");
  EXPECT_EQ(t.channels, (Names{"a", "b"}));
  EXPECT_EQ(t.date_column, "date");
  EXPECT_EQ(t.values, (Values{1, -2.5, 1000, 4}));
  EXPECT_EQ(t.rows(), 2);
  EXPECT_EQ(t.date(1), "2024-01-02");
  EXPECT_EQ(table_of(write_table(t)).values, t.values);
}

TEST(Table, QuotesDelimitersAndLineEnds) {
  const SeriesTable t = table_of("\"the \"\"date\"\"\";\"a;b\" ; c\r\n\"2024-01-01\";1;2\r\n2024-01-02 ; 3;\"4\"\r\n");
  EXPECT_EQ(t.date_column, "the \"date\"");
  EXPECT_EQ(t.channels, (Names{"a;b", "c"}));
  EXPECT_EQ(t.values, (Values{1, 2, 3, 4}));
  EXPECT_EQ(table_of("x\ty\n1\t2\n").values, (Values{1, 2}));
  EXPECT_EQ(table_of("date,\"two\nlines\"\n2024-01-01,5\n").channels, (Names{"two\nlines"}));
  EXPECT_EQ(table_of("a|b\n1|2\n", {.delimiter = "|"}).values, (Values{1, 2}));
  const SeriesTable odd{.name = "", .date_column = "a,b", .channels = {" x\"y"}, .dates = {0}, .values = {1.5}};
  EXPECT_EQ(table_of(write_table(odd)).channels, odd.channels);
  EXPECT_EQ(table_of(write_table(odd)).date_column, odd.date_column);
}

TEST(Table, TheDateColumnIsFoundOrNamed) {
  EXPECT_EQ(table_of("a,when\n1,2024-01-01\n").date_column, "when");
  EXPECT_EQ(table_of("Date,a\n1,5\n2,6\n").dates, (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(table_of("a,b\n1,5\n2,6\n").dates.empty());
  const std::string unnamed = ",a\n2024-01-01,1\n2024-01-02,2\n";  // as pandas writes an index
  EXPECT_EQ(write_table(table_of(unnamed)), unnamed);
  const SeriesTable named = table_of("a,b\n5,1\n6,2\n", {.date_column = "b"});
  EXPECT_EQ(named.dates, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(named.channels, (Names{"a"}));
}

TEST(Table, ChannelsAreChosenByName) {
  const std::string text = "date,a,name,b\n2024-01-01,1,x,2\n";
  EXPECT_EQ(table_of(text, {.channels = {"b", "a"}}).values, (Values{2, 1}));
  EXPECT_EQ(table_of(text, {.channels = {"b,a"}}).channels, (Names{"b", "a"}));
  EXPECT_EQ(table_of("\"a,b\"\n7\n", {.channels = {"a,b"}}).values, (Values{7}));
  expect_refusal(text, {"x.csv", "row 1 (line 2)", "'name'", "'x' is no number", "--channels"});
  expect_refusal(text, {"'c'", "did you mean", "date, a, name, b"}, {.channels = {"c"}});
  expect_refusal(text, {"'a' is asked for twice"}, {.channels = {"a", "a"}});
  expect_refusal(text, {"'date' holds the dates"}, {.channels = {"date"}});
  expect_refusal(text, {"'day'"}, {.date_column = "day"});
}

TEST(Table, WhatCannotBeReadIsNamed) {
  expect_refusal("", {"x.csv", "empty"});
  expect_refusal("date,a\n", {"no rows"});
  expect_refusal("1,2\n3,4\n", {"names of the columns"});
  expect_refusal("date,a,a\n2024-01-01,1,2\n", {"two columns are called 'a'"});
  expect_refusal("date\n2024-01-01\n", {"no numeric column"});
  expect_refusal("date,\n2024-01-01,1\n", {"column 2 has no name"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,oops\n", {"row 2 (line 3)", "column 'a'", "'oops' is no number"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,inf\n", {"row 2", "'inf'"});
  expect_refusal("date,a\n2024-01-01,1e999\n", {"'1e999'"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,2,3\n", {"row 2 (line 3)", "3 cells", "2 columns", "','"});
  expect_refusal("date,a\n2024-01-01,1\n\n2024-01-02\n", {"row 2 (line 4)", "1 cells"});
  expect_refusal("date,a\n2024-01-01,1\nyesterday,2\n", {"row 2", "column 'date'", "'yesterday' is no date"});
  expect_refusal("date,a\n2024-01-01,1\n7,2\n", {"row 2", "another way"});
  expect_refusal("date,a\n2024-01-02,1\n2024-01-02,2\n", {"row 2", "is not after '2024-01-02'", "must increase"});
  expect_refusal("date,a\n2024-01-01,\"1\n", {"line 2", "does not end"});
  expect_refusal("date,a\n2024-01-01,1\n", {"delimiter is 'ab'"}, {.delimiter = "ab"});
}

TEST(Table, MissingValuesByPolicy) {
  const std::string text = "date,a,b\n2024-01-01,,1\n2024-01-02,2,NaN\n2024-01-03,3,na\n2024-01-05,5,7\n2024-01-06,null,8\n";
  expect_refusal(text, {"4 values are missing", "row 1 (line 2), column 'a'", "row 2 (line 3), column 'b'", "…", "--missing drop"});
  const SeriesTable dropped = table_of(text, {.missing = Missing::drop});
  EXPECT_EQ(dropped.values, (Values{5, 7}));
  EXPECT_EQ(dropped.date(0), "2024-01-05");
  EXPECT_EQ(dropped.dropped, 4);
  // Linear in time: of b, January 2 and 3 are one and two of the four days from the 1st to the 5th. Ends take the nearest.
  const SeriesTable filled = table_of(text, {.missing = Missing::interpolate});
  EXPECT_EQ(filled.values, (Values{2, 1, 2, 2.5, 3, 4, 5, 7, 5, 8}));
  EXPECT_EQ(filled.missing, 4);
  EXPECT_EQ(table_of("a,b\n,1\n2,2\n", {.missing = Missing::interpolate}).values, (Values{2, 1, 2, 2}));
  expect_refusal("date,a\n2024-01-01,\n", {"'a' has no values at all"}, {.missing = Missing::interpolate});
  expect_refusal("date,a\n2024-01-01,\n", {"none is left"}, {.missing = Missing::drop});
}

}  // namespace transformer::test
