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

TEST(Table, ADateColumnMayStandBehindText) {
  const std::string text = "symbol,date,close\nA,2024-01-01,1\nA,2024-01-02,2\n";
  const SeriesTable t = table_of(text, {.channels = {"close"}});
  EXPECT_EQ(t.date_column, "date");
  EXPECT_EQ(t.date(1), "2024-01-02");
  EXPECT_TRUE(table_of("symbol,n,close\nA,1,5\n", {.channels = {"close"}}).dates.empty());
}

TEST(Table, AUsualDateColumnIsTakenWhereItIs) {
  const std::string text = "listed,day,a\n2000-01-01,2024-01-01,1\n2000-01-01,2024-01-02,2\n";
  const TableOptions options{.channels = {"a"}, .usual_date_column = "day"};
  EXPECT_EQ(table_of(text, options).date_column, "day");
  EXPECT_EQ(table_of("when,a\n2024-01-01,1\n", options).date_column, "when");
}

TEST(Table, IntegersThatAreAllDatesAreDates) {
  const std::string text = "date,a\n20240131,1\n20240229,2\n20240331,3\n";
  const SeriesTable t = table_of(text);
  EXPECT_FALSE(t.format.integer);
  EXPECT_EQ(write_date(t.dates[1], {}), "2024-02-29");
  EXPECT_EQ(write_date(advance(t.dates.back(), t.step(), 1), t.format), "20240430");
  EXPECT_EQ(write_table(t), text);
  EXPECT_TRUE(table_of("date,a\n20240131,1\n20240132,2\n").format.integer);
}

TEST(Table, DatesWithAnOffsetFromUtc) {
  const std::string text = "t,a\n2024-01-01 00:00:00+09:00,1\n2024-01-01 01:00:00+09:00,2\n";
  EXPECT_EQ(write_table(table_of(text)), text);
  EXPECT_EQ(table_of("t,a\n2024-01-01 00:00Z,1\n2024-01-01 01:00+00:00,2\n").rows(), 2);
  expect_refusal("t,a\n2024-03-31 01:00+01:00,1\n2024-03-31 03:00+02:00,2\n",
                 {"row 2 (line 3), column 't'", "another offset from UTC", "2024-03-31 01:00+01:00"});
  expect_refusal("t,a\n2024-03,1\n2024-04-01,2\n", {"row 2", "another way"});
}

TEST(Table, NumbersAreWrittenByWhatTheyDifferBy) {
  EXPECT_EQ(decimals_for(std::vector{1e9 - 5, 1e9, 1e9 + 5}), 5);
  EXPECT_EQ(decimals_for(std::vector{0.001, 0.002, 0.003}), 9);
  EXPECT_EQ(decimals_for(std::vector{1e8, 2e8}), 0);
  EXPECT_EQ(decimals_for(std::vector{0.1, 0.1}), 6);  // nothing but the size to go by
  EXPECT_EQ(decimals_for(std::vector{0.0, 0.0}), 5);
  EXPECT_EQ(decimals_for(std::vector{1e12, 1e12 + 1}), 4);  // a double has no more
  EXPECT_EQ(decimals_for(std::vector{1e-30, 2e-30}), -1);
  EXPECT_EQ(decimals_for(std::vector{1e30, 2e30}), -1);
  const SeriesTable t{.name = "", .channels = {"a", "b", "c"}, .values = {1e9 + 1.25, 0.5, 1e-30}};
  EXPECT_EQ(write_table(t, {3, 0, -1}), "a,b,c\n1000000001.250,0,1e-30\n");
}

TEST(Table, ChannelsAreChosenByName) {
  const std::string text = "date,a,name,b\n2024-01-01,1,x,2\n";
  EXPECT_EQ(table_of(text, {.channels = {"b", "a"}}).values, (Values{2, 1}));
  EXPECT_EQ(table_of(text, {.channels = {"b,a"}}).channels, (Names{"b", "a"}));
  EXPECT_EQ(table_of("\"a,b\"\n7\n", {.channels = {"a,b"}}).values, (Values{7}));
  expect_refusal(text, {"x.csv", "row 1 (line 2)", "'name'", "'x' is not a number", "--channels"});
  expect_refusal(text, {"'c'", "did you mean", "date, a, name, b"}, {.channels = {"c"}});
  expect_refusal(text, {"'a' is asked for twice"}, {.channels = {"a", "a"}});
  expect_refusal(text, {"'date' holds the dates"}, {.channels = {"date"}});
  expect_refusal(text, {"'day'"}, {.date_column = "day"});
}

TEST(Table, WhatCannotBeReadIsNamed) {
  expect_refusal("", {"x.csv", "empty"});
  expect_refusal("date,a\n", {"no rows"});
  expect_refusal("1,2\n3,4\n", {"names of the columns", "--header yes", "--header no"});
  expect_refusal("date,a,a\n2024-01-01,1,2\n", {"two columns are called 'a'"});
  expect_refusal("date\n2024-01-01\n", {"no numeric column"});
  expect_refusal("date,\n2024-01-01,1\n", {"column 2 has no name"});
  expect_refusal(",date,a\n0,2024-01-01,1\n", {"column 1 has no name", "--channels"});  // as pandas writes rows that are numbered
  for (const char* cell : {"\"1,000.5\"", "\"1,000,000\"", "1.000.000", "1 000", "-1'000"})
    expect_refusal(fmt::format("date,a\n2024-01-01,{}\n", cell), {"row 1 (line 2)", "column 'a'", "nothing between thousands", "1234.5"});
  for (const char* cell : {"01/31/20", "31.01.20", "31-Jan-20"})
    expect_refusal(fmt::format("day,a\n{},1\n", cell), {"row 1 (line 2)", "column 'day'", "YYYY-MM-DD", "YYYYMMDD", "--date-format"});
  expect_refusal("date,a\n01/31/20,1\n", {"'01/31/20' is not a date", "YYYY-MM-DD", "--date-format"});
  for (const std::string_view text : {std::string_view("\xFF\xFE"
                                                       "d\0,\0a\0\n\0",
                                                       10),
                                      std::string_view("\xFE\xFF\0d\0,\0a\0\n", 10)})
    expect_refusal(std::string(text), {"x.csv", "UTF-16", "UTF-8"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,oops\n", {"row 2 (line 3)", "column 'a'", "'oops' is not a number"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,inf\n", {"row 2", "'inf'"});
  expect_refusal("date,a\n2024-01-01,1e999\n", {"'1e999'"});
  expect_refusal("date,a\n2024-01-01,1\n2024-01-02,2,3\n", {"row 2 (line 3)", "3 cells", "2 columns", "','"});
  expect_refusal("date,a\n2024-01-01,1\n\n2024-01-02\n", {"row 2 (line 4)", "1 cells"});
  expect_refusal("date,a\n2024-01-01,1\nyesterday,2\n", {"row 2", "column 'date'", "'yesterday' is not a date"});
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

TEST(Table, DatesAsPeopleWriteThem) {
  const auto first_and_next = [](const std::string& a, const std::string& b, const TableOptions& options = {}) {
    const SeriesTable t = table_of(fmt::format("day;x\n{};1\n{};2\n", a, b), options);
    return fmt::format("{} {} {}", write_date(t.dates[0], {}), describe(t.step(), t.format),
                       write_date(advance(t.dates.back(), t.step(), 1), t.format));
  };
  EXPECT_EQ(first_and_next("01/12/2024", "01/13/2024"), "2024-01-12 1 day 01/14/2024");
  EXPECT_EQ(first_and_next("12/01/2024", "13/01/2024"), "2024-01-12 1 day 14/01/2024");
  EXPECT_EQ(first_and_next("1/30/2024 9:00", "1/30/2024 10:00"), "2024-01-30 1 hour 1/30/2024 11:00");
  EXPECT_EQ(first_and_next("31.01.2024", "29.02.2024"), "2024-01-31 1 month 31.03.2024");
  EXPECT_EQ(first_and_next("2023년 12월 31일", "2024년 1월 1일"), "2023-12-31 1 day 2024년 1월 2일");
  EXPECT_EQ(first_and_next("2023년 12월", "2024년 01월"), "2023-12-01 1 month 2024년 02월");
  EXPECT_EQ(first_and_next("2023. 1. 1.", "2023. 1. 2."), "2023-01-01 1 day 2023. 1. 3.");
  EXPECT_EQ(first_and_next("2023-9-30", "2023-10-01"), "2023-09-30 1 day 2023-10-2");
  EXPECT_EQ(first_and_next("2023-10-10", "2024-1-10"), "2023-10-10 3 months 2024-4-10");
  EXPECT_EQ(first_and_next("31-Jan-2024", "01-Feb-2024"), "2024-01-31 1 day 02-Feb-2024");
  EXPECT_EQ(first_and_next("Dec 31, 2023", "Jan 1, 2024"), "2023-12-31 1 day Jan 2, 2024");
  // Both orders are dates, but only one of them goes on in time.
  EXPECT_EQ(first_and_next("31/12/2023", "01/01/2024"), "2023-12-31 1 day 02/01/2024");
  EXPECT_EQ(first_and_next("05/02/2024", "04/03/2024"), "2024-02-05 28 days 01/04/2024");
  // As the user says.
  EXPECT_EQ(first_and_next("01/02/2024", "01/03/2024", {.date_format = "%d/%m/%Y"}), "2024-02-01 1 month 01/04/2024");
  EXPECT_EQ(first_and_next("31-Jan-24 11:30 PM", "1-Feb-24 12:30 AM", {.date_format = "%d-%b-%y %I:%M %p"}),
            "2024-01-31 1 hour 1-Feb-24 1:30 AM");
  EXPECT_EQ(first_and_next("2024-01-01T00:00:00.000+0900", "2024-01-01T01:00:00.000+0900", {.date_format = "%FT%T.%f%z"}),
            "2024-01-01 1 hour 2024-01-01T02:00:00.000+0900");
  EXPECT_EQ(first_and_next("2024-365", "2024-366", {.date_format = "%Y-%j"}), "2024-12-30 1 day 2025-001");
  const std::string written = "date,a\n\"Mon, Jan 01, 2024\",1\n\"Tue, Jan 02, 2024\",2\n";
  EXPECT_EQ(write_table(table_of(written, {.date_format = "%a, %b %d, %Y"})), written);
}

TEST(Table, DatesThatMayBeReadInTwoWays) {
  expect_refusal("d,a\n01/02/2024,1\n01/03/2024,2\n",
                 {"column 'd'", "'01/02/2024'", "2 ways", "--date-format %m/%d/%Y", "--date-format %d/%m/%Y"});
  expect_refusal("d,a\n01/13/2024,1\n13/02/2024,2\n", {"row 2 (line 3)", "'13/02/2024'", "another way"});
  expect_refusal("d,a\n01/13/2024,1\n01/12/2024,2\n", {"row 2 (line 3)", "is not after '01/13/2024'"});
  expect_refusal("d,a\n31.02.2024,1\n", {"'31.02.2024' is no", "--date-format"});
  expect_refusal("d,a\n2024-01-01,1\n", {"--date-format", "no such date"}, {.date_format = "%d.%m.%Y"});
  expect_refusal("d,a\n2024-01-01,1\n2024.01.02,1\n", {"row 2", "as --date-format says"}, {.date_format = "%Y-%m-%d"});
  expect_refusal("d,a\n2024-01-01,1\n", {"--date-format", "%Q", "%Y"}, {.date_column = "d", .date_format = "%Y-%Q"});
  expect_refusal("d,a\n2024-01-01,1\n", {"--date-format", "no year"}, {.date_column = "d", .date_format = "%d.%m."});
}

TEST(Table, DecimalCommas) {
  EXPECT_EQ(table_of("date;a;b\n2024-01-01;1,5;-2\n2024-01-02;0,333;1234,5\n").values, (Values{1.5, -2, 0.333, 1234.5}));
  EXPECT_EQ(table_of("date\ta\n2024-01-01\t1,5e3\n").values, (Values{1500}));
  EXPECT_EQ(table_of("date,a\n2024-01-01,\"1,5\"\n").values, (Values{1.5}));
  EXPECT_EQ(table_of("a;b\n1,234;5\n", {.decimal = Decimal::comma}).values, (Values{1.234, 5}));
  EXPECT_EQ(table_of("a;b\n1.234;5\n").values, (Values{1.234, 5}));
  // Thousands are not taken for decimals, whatever stands in other cells.
  expect_refusal("a;b\n5;1,234\n6;2,345\n", {"'1,234' in row 1 (line 2), column 'b'", "--decimal ,"});
  expect_refusal("a;b\n1,234;5.5\n", {"'1,234' in row 1", "'5.5' in row 1"});
  expect_refusal("a;b\n1,5;5.5\n", {"'1,5' in row 1", "'5.5' in row 1"});
  expect_refusal("a;b\n1,5;5\n", {"'1,5' is not a number"}, {.decimal = Decimal::point});
  expect_refusal("a;b\n1.5;5\n", {"'1.5' is not a number", "--decimal"}, {.decimal = Decimal::comma});
}

TEST(Table, TablesWithoutNames) {
  const SeriesTable t = table_of("2024-01-01,1,2\n2024-01-02,3,4\n");
  EXPECT_EQ(t.date_column, "date");
  EXPECT_EQ(t.channels, (Names{"column2", "column3"}));
  EXPECT_EQ(t.values, (Values{1, 2, 3, 4}));
  EXPECT_EQ(table_of("2024-01-01;1,5\n2024-01-02;2,5\n").values, (Values{1.5, 2.5}));
  EXPECT_EQ(table_of("1,2\n3,4\n", {.header = Header::no}).channels, (Names{"column1", "column2"}));
  EXPECT_EQ(table_of("1,2\n3,4\n", {.header = Header::no}).values, (Values{1, 2, 3, 4}));
  EXPECT_EQ(table_of("1,2\n3,4\n", {.channels = {"column2"}, .date_column = "column1", .header = Header::no}).values, (Values{2, 4}));
  EXPECT_EQ(table_of("0,1\n3,4\n", {.header = Header::yes}).channels, (Names{"0", "1"}));
  EXPECT_EQ(table_of("2024-01-01,1\n2024-01-02,3\n", {.header = Header::yes}).channels, (Names{"1"}));
  EXPECT_EQ(table_of("date,0,1\n2024-01-01,1,2\n").channels, (Names{"0", "1"}));
  expect_refusal("a,b\n1,2\n", {"'a' is not a number"}, {.header = Header::no});
}

}  // namespace transformer::test
